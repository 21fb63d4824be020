"""Driver and workers killed again and again: every message is in the table or in quarantine, once.

``DRAGOMAN_FULL=1`` runs the long form: 500,000 messages and ten kills for each table format.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.source.channels import V1, Place, loans
from tests.services.group import Group

from dragoman.core.message import Message
from dragoman.pipeline.events import read_events
from dragoman.pipeline.tables import open_table

FULL = os.environ.get("DRAGOMAN_FULL") == "1"
MESSAGES = 500_000 if FULL else 20_000
KILLS = 10 if FULL else 2
ROWS_PER_BATCH = MESSAGES // (KILLS * 6)
ROOT = Path(__file__).parents[3]
PATIENCE = 300.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (number,) = made.register("loans-value", V1)
    made.create("loans")
    for start in range(0, MESSAGES, 10_000):
        batch = loans(number, V1, range(start, start + 10_000))
        made.publish(
            [
                Message("loans", b"corrupt", partition=index % 2)
                if index % 100 == 0
                else message._replace(partition=index % 2)
                for index, message in enumerate(batch)
            ]
        )
    return made


class Driver:
    """One life of the driver, with its JVM and its Python workers in a session of their own."""

    def __init__(self, place: Place, table_format: str) -> None:
        self._events = place.folder / "tables" / "_dragoman" / "pipeline-loans" / "events.jsonl"
        target = str(place.folder / "tables")
        arguments = (place.broker, place.registry, target, table_format, str(ROWS_PER_BATCH))
        command = [sys.executable, "-m", "tests.pipeline.crash.driver", *arguments]
        self._process = Group(command, place.folder / "driver.log", ROOT)

    def wait_for_batches(self, more: int) -> bool:
        """Until so many more batches are in the tables; False if the work is done."""
        wanted = read_events(self._events, "").batch + more
        for _ in self._waiting():
            if self._process.ended:
                return False
            if read_events(self._events, "").batch >= wanted:
                return True
        raise AssertionError("the driver makes no progress")

    def kill(self) -> None:
        self._process.kill()

    def kill_a_worker(self) -> None:
        workers = [pid for pid in self._session() if "-m pyspark" in _command(pid)]
        random.shuffle(workers)
        for pid in workers:
            # Some live for a batch only.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return

    def finish(self) -> int:
        assert self._process.wait(PATIENCE), "the driver does not end"
        return self._process.kill()

    def _session(self) -> Iterator[int]:
        """Spark's daemons, and the workers they fork, are in groups of their own."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getsid(int(entry.name)) == self._process.pid:
                        yield int(entry.name)
                except ProcessLookupError:
                    continue

    @staticmethod
    def _waiting() -> Iterator[None]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            yield
            time.sleep(0.05)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@pytest.fixture
def driver(place: Place) -> Iterator[Callable[[str], Driver]]:
    """Starts drivers, and leaves none behind."""
    started: list[Driver] = []

    def start(table_format: str) -> Driver:
        started.append(Driver(place, table_format))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.parametrize("table_format", ["delta", "iceberg"] if FULL else ["delta"])
def test_each_message_is_there_once_however_often_the_driver_is_killed(
    spark: Any, place: Place, driver: Callable[[str], Driver], table_format: str
) -> None:
    kills = 0
    while kills < KILLS:
        life = driver(table_format)
        if not life.wait_for_batches(1 + kills % 2):
            break  # It was done before this process got to kill it once more.
        life.kill()
        kills += 1
    assert kills, "the first driver was done before it could be killed: make the batches smaller"
    life = driver(table_format)
    if life.wait_for_batches(1):
        life.kill_a_worker()
    if life.finish() != 0:
        life = driver(table_format)
        assert life.finish() == 0, (place.folder / "driver.log").read_text()[-3000:]
    target = str(place.folder / "tables")
    good = open_table(table_format, target, "loans").read(["_meta"]).to_pylist()
    bad = open_table(table_format, target, "loans_quarantine").read(["partition", "offset"]).to_pylist()
    places = Counter((row["_meta"]["partition"], row["_meta"]["offset"]) for row in good)
    places.update((row["partition"], row["offset"]) for row in bad)
    assert len(good) == MESSAGES - MESSAGES // 100
    assert len(bad) == MESSAGES // 100
    assert set(places.values()) == {1}
    assert len(places) == MESSAGES
