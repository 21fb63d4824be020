"""How large an envelope may be."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from dragoman.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeLimits:
    """What is larger is refused before anything else is done with it."""

    bytes: int = 256 * 1024
    datums: int = 5_000
    depth: int = 32
    """Datums inside datums; data without nesting has a depth of 1."""
    name: int = 200
    """Characters of ids, resources, entities and versions."""
    token: int = 8 * 1024

    def __post_init__(self) -> None:
        if min(astuple(self)) < 1:
            raise ConfigurationError("The limits of envelopes are numbers above zero.")


LIMITS = EnvelopeLimits()
