"""Orchestrators: those who answer requests, on the ordinary delivery loop."""

from __future__ import annotations

from dragoman.gateway.orchestration.call import Call
from dragoman.gateway.orchestration.orchestrator import orchestrator
from dragoman.gateway.orchestration.outcomes import Outcomes
from dragoman.gateway.orchestration.passes import Passes
from dragoman.gateway.orchestration.routing import on

__all__ = ["Call", "Outcomes", "Passes", "on", "orchestrator"]
