"""What may happen in more than one world. ``at`` is in seconds since the beginning."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.testing.simulation.network import How


@dataclass(frozen=True, slots=True)
class Join:
    at: float
    member: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The member closes."""

    at: float
    member: str


@dataclass(frozen=True, slots=True)
class Die:
    """The process is killed."""

    at: float
    member: str


@dataclass(frozen=True, slots=True)
class Hang:
    """The process stands still for some seconds."""

    at: float
    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of the member's next call of this operation."""

    at: float
    member: str
    operation: str
    how: How


@dataclass(frozen=True, slots=True)
class Cut:
    """No call of the member gets through for some seconds; without a member, of nobody."""

    at: float
    member: str | None
    seconds: float
