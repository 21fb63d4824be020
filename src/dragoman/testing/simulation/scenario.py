"""Scenarios from seeds: make one, run it, replay it, and shrink it when it fails.

A *world* is what is simulated: it makes a list of events from a seed, and runs them. Everything that may
happen in one order or another is decided by the seed, so a run with the same seed and the same events ends
the same way, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeVar

E = TypeVar("E")


class Violation(AssertionError):
    """An invariant does not hold. ``rule`` says which, for shrinking: one failure must not become another."""

    def __init__(self, what: str, rule: str = "") -> None:
        super().__init__(what)
        self.rule = rule


class World(Protocol[E]):
    """What is simulated. An event is a frozen value whose ``repr`` tells what happens."""

    name: str

    def events(self, random: Random) -> Sequence[E]:
        """What happens in the scenario of one seed: the clients' work, and the faults."""
        ...

    def run(self, seed: int, events: Sequence[E]) -> None:
        """Run the events and check the invariants after each step.

        ``seed`` decides every interleaving. Any subset of the events of a scenario must be a scenario, too.
        Raises ``Violation`` if an invariant does not hold; any other exception is a fault as well.
        """
        ...


@dataclass(frozen=True, slots=True)
class Failure(Generic[E]):
    """A scenario that fails."""

    world: str
    seed: int
    events: tuple[E, ...]
    error: BaseException

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:3} {event!r}" for number, event in enumerate(self.events, 1))
        notes = "".join(f"\n{note}" for note in getattr(self.error, "__notes__", ()))
        return (
            f"{self.world}, seed {self.seed}: {type(self.error).__name__}: {self.error}\n{steps}\n"
            f"Replay it with: make simulate WORLD={self.world} SEED={self.seed}{notes}"
        )


def try_seed(world: World[Any], seed: int) -> Failure[Any] | None:
    """Run the scenario of this seed."""
    return _try(world, seed, tuple(world.events(Random(f"{world.name} {seed}"))))


def first_failure(world: World[Any], seeds: Iterable[int]) -> Failure[Any] | None:
    """Run the scenarios of these seeds until one fails."""
    for seed in seeds:
        failure = try_seed(world, seed)
        if failure is not None:
            return failure
    return None


def shrink(world: World[E], failure: Failure[E], tries_max: int = 2000) -> Failure[E]:
    """Leave out events as long as the scenario still fails in the same way.

    Pieces of half the scenario are left out first, then smaller ones, then single events.
    """
    kind = _kind(failure)
    size = max(1, len(failure.events) // 2)
    tries = 0
    while True:
        at, is_smaller = 0, False
        while at < len(failure.events) and tries < tries_max:
            tries += 1
            fewer = _try(world, failure.seed, (*failure.events[:at], *failure.events[at + size :]))
            if fewer is not None and _kind(fewer) == kind:
                failure, is_smaller = fewer, True
            else:
                at += size
        if tries >= tries_max or (size == 1 and not is_smaller):
            return failure
        size = max(1, size // 2)


def _kind(failure: Failure[Any]) -> tuple[type[BaseException], str]:
    return type(failure.error), getattr(failure.error, "rule", "")


def _try(world: World[E], seed: int, events: tuple[E, ...]) -> Failure[E] | None:
    try:
        world.run(seed, events)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return Failure(world.name, seed, events, error)
    return None
