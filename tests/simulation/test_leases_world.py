"""Leases hold in every scenario, and the simulator finds an engine whose leases do not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from dragoman.core.leasing import Change, LeasedReceiver, Stored
from dragoman.core.progress import Progress
from dragoman.testing.simulation import first_failure, shrink
from dragoman.testing.simulation.leases import LeasesWorld
from dragoman.testing.simulation.leasing import Shelf

WORLD = LeasesWorld()
CHUNK = 100
HUNDREDS = 5


@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_no_scenario_breaks_the_leases(hundred: int) -> None:
    failure = first_failure(WORLD, range(hundred * CHUNK, (hundred + 1) * CHUNK))
    if failure is not None:
        pytest.fail(str(shrink(WORLD, failure)))


def test_a_scenario_of_any_of_its_events_is_a_scenario() -> None:
    random = Random(1)
    for seed in range(30):
        events = WORLD.events(Random(f"leases {seed}"))
        WORLD.run(seed, [each for each in events if random.random() < 0.5])


# Deliberately broken engines


def compare_nothing(patch: pytest.MonkeyPatch) -> None:
    """Records are changed whatever their revision is."""

    def save(self: Shelf, member: str, changes: Sequence[Change]) -> list[int | None]:
        for change in changes:
            self.records[change.name] = Stored(change.data, change.revision + 1)
            self._listen(member, change)
        return [change.revision + 1 for change in changes]

    patch.setattr(Shelf, "save", save)


def claim_without_looking(patch: pytest.MonkeyPatch) -> None:
    """What the former owner had in flight counts as done."""
    patch.setattr(Progress, "abandon", lambda self: setattr(self, "position", self.cursor))


def acknowledge_what_nobody_saw(patch: pytest.MonkeyPatch) -> None:
    """What a cancelled receive had taken is acknowledged with later messages, as it once was."""
    patch.setattr(LeasedReceiver, "_take_back", lambda self, share, offset: None)


def keep_what_was_not_written(patch: pytest.MonkeyPatch) -> None:
    """A delivery that was not written down counts as made."""
    patch.setattr("dragoman.core.leasing.share.Delivery.undo", lambda self: None)


@pytest.mark.parametrize(
    ("breaking", "seeds"),
    [
        (compare_nothing, 50),
        (claim_without_looking, 100),
        (acknowledge_what_nobody_saw, 500),
        (keep_what_was_not_written, 300),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_engine_is_found(monkeypatch: pytest.MonkeyPatch, breaking: Any, seeds: int) -> None:
    breaking(monkeypatch)
    failure = first_failure(WORLD, range(seeds))
    assert failure is not None
    print(f"{breaking.__name__}: after {failure.seed + 1} seeds: {failure.error}")


def test_what_is_found_shrinks_to_a_handful_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_without_looking(monkeypatch)
    failure = first_failure(WORLD, range(200))
    assert failure is not None
    assert len(shrink(WORLD, failure).events) <= 6
