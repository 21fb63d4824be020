"""Orchestrators: those who answer requests, on the ordinary delivery loop."""

from __future__ import annotations

from dragoman.gateway.orchestration.call import Call
from dragoman.gateway.orchestration.orchestrator import orchestrator
from dragoman.gateway.orchestration.outcomes import Outcomes
from dragoman.gateway.orchestration.routing import on
from dragoman.gateway.security.passes import Passes

__all__ = ["Call", "Outcomes", "Passes", "on", "orchestrator"]
