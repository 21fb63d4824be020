"""How large an envelope may be."""

from __future__ import annotations

from dataclasses import dataclass


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


LIMITS = EnvelopeLimits()
