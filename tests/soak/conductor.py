"""Runs producers and consumers, kills them and their server, and tells what became of the messages."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.server import Server
from tests.soak.worker import KEYS, READY, Job, confirmed

PRODUCERS = CONSUMERS = 4
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Plan:
    messages: int
    batch: int = 100
    pause: float = 0.0
    """Seconds that a producer rests between batches."""
    kill_every: float = 1.0
    most_kills: int | None = None
    """A busy machine takes longer to start a process than a second: with so many there is an end to it."""
    patience: float = 900.0
    """Seconds after which the run has failed."""


@dataclass
class Report:
    wanted: int
    handled: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How often each message was handled, by producer and number."""
    unordered: int = 0
    """Messages that were first handled after a later one of their key."""
    kills: int = 0
    restarts: int = 0
    seconds: float = 0.0

    @property
    def lost(self) -> int:
        return self.wanted - len(self.handled)

    @property
    def duplicates(self) -> int:
        return self.handled.total() - len(self.handled)

    def __str__(self) -> str:
        return (
            f"{len(self.handled):,} of {self.wanted:,} messages, {self.lost:,} lost, "
            f"{self.duplicates:,} handled again, {self.unordered:,} out of order; "
            f"{self.kills} processes killed, {self.restarts} restarts of the server, {self.seconds:.0f} s"
        )


class Conductor:
    """``server`` is ``None`` where there is none to restart."""

    def __init__(self, folder: Path, broker: str, plan: Plan, server: Server | None) -> None:
        each = plan.messages // PRODUCERS
        self._plan = plan
        self._jobs = [
            Job(kind, folder, broker, number, each, plan.batch, plan.pause)
            for kind, count in (("producer", PRODUCERS), ("consumer", CONSUMERS))
            for number in range(count)
        ]
        self._processes: dict[Job, subprocess.Popen[bytes]] = {}
        self._lives: dict[Job, int] = {}
        """How often each had been ready before it was started the last time."""
        self._listening = False
        self._server = server
        self._random = random.Random(1)
        self._journals = {job: Journal(job.journal) for job in self._jobs if job.kind == "consumer"}
        self.report = Report(each * PRODUCERS)

    def run(self) -> Report:
        started = time.monotonic()
        try:
            self._conduct(started)
        finally:
            for process in self._processes.values():
                process.kill()
            for process in self._processes.values():
                process.wait()
        self._read()
        self.report.unordered = unordered(self._journals.values())
        self.report.seconds = time.monotonic() - started
        return self.report

    def _conduct(self, started: float) -> None:
        report, marks = self.report, [self.report.wanted // 4, self.report.wanted // 2]
        kill_at = started
        while report.lost and time.monotonic() < started + self._plan.patience:
            self._tend()
            self._read()
            if self._server is not None:
                self._server.check()
                if marks and len(report.handled) >= marks[0]:
                    marks.pop(0)
                    self._server.kill()
                    self._server.restart()
                    report.restarts += 1
            if time.monotonic() >= kill_at and self._may_kill():
                kill_at = time.monotonic() + self._plan.kill_every
                self._kill_one()
            time.sleep(0.05)

    def _tend(self) -> None:
        """Start what is not running and not done.

        Producers wait for a consumer: on a broker without history its group gets only what comes after it.
        """
        if not self._listening:
            self._listening = any(_readies(job) for job in self._jobs if job.kind == "consumer")
        for job in self._jobs:
            process = self._processes.get(job)
            if process is not None and process.poll() is None:
                continue
            if job.kind == "consumer" or (self._listening and confirmed(job.journal) < job.count):
                self._lives[job] = _readies(job)
                self._processes[job] = subprocess.Popen(
                    [sys.executable, "-m", "tests.soak.worker", *job.arguments],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                )

    def _may_kill(self) -> bool:
        most = self._plan.most_kills
        return most is None or self.report.kills < most

    def _kill_one(self) -> None:
        """One that has done something since it was started.

        A process that is killed before proves nothing, and on a busy machine none would ever get further.
        """
        working = [
            job
            for job, process in self._processes.items()
            if process.poll() is None and _has_worked(job, self._lives[job])
        ]
        if working:
            victim = self._processes[self._random.choice(working)]
            victim.kill()
            victim.wait()
            self.report.kills += 1

    def _read(self) -> None:
        for journal in self._journals.values():
            self.report.handled.update(journal.read())


class Journal:
    """What one consumer has handled, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.entries: list[tuple[int, int, int]] = []

    def read(self) -> list[tuple[int, int]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        found = [
            (int(when), int(producer), int(number))
            for when, producer, number in (
                line.split() for line in whole.splitlines() if not line.startswith(READY.strip())
            )
        ]
        self.entries += found
        return [(producer, number) for _, producer, number in found]


def unordered(journals: Iterable[Journal]) -> int:
    """How many messages were handled for the first time after a later one of their key."""
    first: dict[tuple[int, int], int] = {}
    for journal in journals:
        for when, producer, number in journal.entries:
            first[producer, number] = min(when, first.get((producer, number), when))
    by_key: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (producer, number), _ in sorted(first.items(), key=lambda item: item[1]):
        by_key[producer, number % KEYS].append(number)
    return sum(
        later < highest
        for numbers in by_key.values()
        for later, highest in zip(numbers[1:], _running_highest(numbers), strict=False)
    )


def _running_highest(numbers: list[int]) -> list[int]:
    highest: list[int] = []
    for number in numbers:
        highest.append(max(number, highest[-1]) if highest else number)
    return highest


def _readies(job: Job) -> int:
    return job.journal.read_bytes().count(READY) if job.journal.exists() else 0


def _has_worked(job: Job, lives: int) -> bool:
    """Whether it came to be ready once more, and wrote something behind that."""
    if not job.journal.exists():
        return False
    before, ready, after = job.journal.read_bytes().rpartition(READY)
    return bool(ready) and before.count(READY) >= lives and b"\n" in after
