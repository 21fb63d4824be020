"""A schema: its type and text, and the id that the registry gave it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """A name inside one schema that another contract's version defines."""

    name: str
    contract: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as written. ``id`` and ``fingerprint`` are known once a registry or a format has seen it."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    id: int | None = None
    fingerprint: str | None = None
