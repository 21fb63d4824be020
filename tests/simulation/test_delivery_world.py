"""The delivery core holds its promises in every scenario, and the simulator finds a core that does not."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dragoman.client import flight
from dragoman.client.flight import Flight
from dragoman.client.lane import Place
from dragoman.client.outcome import DONE
from dragoman.client.watermark import Watermark
from dragoman.core.run import offset_of
from dragoman.testing.simulation import first_failure, shrink, try_seed
from dragoman.testing.simulation.delivery import DeliveryWorld, Publish

WORLD = DeliveryWorld()
CHUNK = 100
HUNDREDS = 5


@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_no_scenario_breaks_the_delivery_core(hundred: int) -> None:
    failure = first_failure(WORLD, range(hundred * CHUNK, (hundred + 1) * CHUNK))
    if failure is not None:
        pytest.fail(str(shrink(WORLD, failure)))


def test_a_scenario_of_any_of_its_events_is_a_scenario() -> None:
    random = Random(1)
    for seed in range(30):
        events = WORLD.events(Random(f"delivery {seed}"))
        WORLD.run(seed, [each for each in events if random.random() < 0.5])


# Deliberately broken cores


def acknowledge_what_failed(patch: pytest.MonkeyPatch) -> None:
    """A message of which nobody could make a dead letter is acknowledged instead of kept."""
    patch.setattr(flight, "kept", lambda message, error: DONE)


def ignore_gaps(patch: pytest.MonkeyPatch) -> None:
    """The furthest message is acknowledged, whatever comes before it."""

    def finish_run(self: Watermark, run: Any, places: Any) -> int:
        before = len(self._open)
        for at in places:
            self._open.discard(run.offsets[at])
            self._mark = max(self._mark or (run, at), (run, at), key=offset_of)
        self._order.clear()
        return before - len(self._open)

    patch.setattr(Watermark, "finish_run", finish_run)


def drop_the_queue_when_closing(patch: pytest.MonkeyPatch) -> None:
    """Closing leaves gaps below what handlers have finished (fault 5 of issue 20)."""
    patch.setattr(Place, "close_gaps", Place.clear)


def share_one_window(patch: pytest.MonkeyPatch) -> None:
    """A partition that stands still may use up the window (fault 2 of issue 20)."""
    patch.setattr(Flight, "room", lambda self, window: window - self.count)


def take_back_no_cancellation(patch: pytest.MonkeyPatch) -> None:
    """What a handler did to its task hits the next message."""

    async def nothing() -> None: ...

    patch.setattr(flight, "take_back_cancellation", nothing)


@pytest.mark.parametrize(
    ("breaking", "seeds"),
    [
        (acknowledge_what_failed, 100),
        (ignore_gaps, 100),
        (drop_the_queue_when_closing, 200),
        (share_one_window, 200),
        (take_back_no_cancellation, 400),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_core_is_found(monkeypatch: pytest.MonkeyPatch, breaking: Any, seeds: int) -> None:
    breaking(monkeypatch)
    failure = first_failure(WORLD, range(seeds))
    assert failure is not None
    print(f"{breaking.__name__}: after {failure.seed + 1} seeds: {failure.error}")


def test_what_is_found_shrinks_to_a_handful_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge_what_failed(monkeypatch)
    failure = first_failure(WORLD, range(100))
    assert failure is not None
    shrunk = shrink(WORLD, failure)
    assert len(shrunk.events) <= 6
    assert any(isinstance(event, Publish) for event in shrunk.events)
    # It can be replayed, and tells what happened.
    with pytest.raises(AssertionError, match="had not handled"):
        WORLD.run(shrunk.seed, shrunk.events)
    assert f"SEED={shrunk.seed}" in str(shrunk)
    assert "accepted" in str(shrunk)


def test_a_repaired_core_passes_the_seed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        acknowledge_what_failed(patch)
        failure = first_failure(WORLD, range(100))
    assert failure is not None
    assert try_seed(WORLD, failure.seed) is None
