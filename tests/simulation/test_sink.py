"""Deciding and committing batches with a crash at every call."""

from __future__ import annotations

import os
from random import Random

import pytest

from dragoman.core.disk import make_folders, sync_names
from dragoman.pipeline import state as state_module
from dragoman.pipeline.state import Decision, Pending, State
from dragoman.pipeline.tables.table import DataFile
from dragoman.testing.simulation import first_failure, shrink
from dragoman.testing.simulation.disk import Crash, Kill, PowerFailure, SimulatedDisk
from dragoman.testing.simulation.sink import FOLDER, Arm, Batch, SinkWorld

SEEDS = 1000


def test_each_message_is_in_one_table_once() -> None:
    failure = first_failure(SinkWorld(), range(SEEDS))
    assert failure is None, str(failure)


def test_a_decision_outlives_a_power_failure() -> None:
    """Its file was synced, its name was not: the next try decided otherwise."""
    for calls in range(40):
        for seed in range(20):
            events = [Arm(PowerFailure(773904940 + seed), calls), Batch(5, 291760160), Batch(5, 922449381)]
            SinkWorld().run(seed, events)


def test_a_driver_does_not_write_over_the_decision_of_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead one had no time to remove the partial file, which is a second name of the decision's."""
    disk = SimulatedDisk()
    dead = disk.process()
    make_folders(dead, FOLDER)
    first, other = (Decision(0, 1, (DataFile(path, 1, 1),), ()) for path in ("first", "other"))
    after_the_call = next(luck for luck in range(100) if Random(luck).randrange(3) == 0)
    dead.arm(Kill(after_the_call), 0, "link")
    with pytest.raises(Crash):
        State(FOLDER, disk=dead).decide(first)
    assert State(FOLDER, disk=disk.process()).decide(other) == first
    # In a container the next driver often has the number that the dead one had.
    monkeypatch.setattr("os.getpid", lambda number=os.getpid(): number + 1)
    assert State(FOLDER, disk=disk.process()).decide(other) == first


def test_a_move_out_of_the_quarantine_outlives_a_power_failure() -> None:
    for luck in range(100):
        disk = SimulatedDisk()
        process = disk.process()
        make_folders(process, FOLDER)
        for folder in (FOLDER.parent, FOLDER.parent.parent, FOLDER.parent.parent.parent):
            sync_names(process, folder)
        pending = Pending("retry-1", (DataFile("data/1.parquet", 1, 10),), ("id",))
        State(FOLDER, disk=process).set_pending(pending)
        disk.power_failure(Random(luck))
        state = State(FOLDER, disk=disk.process())
        assert state.pending() == pending
        state.set_pending(None)
        disk.power_failure(Random(luck))
        assert State(FOLDER, disk=disk.process()).pending() is None


@pytest.mark.parametrize("guard", ["quarantine", "table"])
def test_a_commit_that_does_not_ask_for_the_last_batch_is_found(
    guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.testing.simulation.sink import _Table

    asked = _Table.last_batch
    monkeypatch.setattr(
        _Table, "last_batch", lambda self, name: -1 if self.name == guard else asked(self, name)
    )
    world = SinkWorld()
    failure = first_failure(world, range(100))
    assert failure is not None
    assert len(shrink(world, failure).events) <= 4


def test_a_state_that_does_not_sync_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "sync_names", lambda disk, folder: None)
    world = SinkWorld()
    failure = first_failure(world, range(500))
    assert failure is not None
    assert len(shrink(world, failure).events) <= 10
