"""What all requests to one server share."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.registry.http.aliases import Aliases
from dragoman.registry.http.metrics import Metrics
from dragoman.registry.limits import Limits
from dragoman.registry.service import RegistryService


@dataclass(slots=True)
class State:
    service: RegistryService
    limits: Limits
    metrics: Metrics
    aliases: Aliases
    short_conflict_code: bool = False
    """Say 409 instead of 40901 for an incompatible schema, as registries did before December 2025."""
    ready: bool = False
