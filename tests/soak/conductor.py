"""Runs producers and consumers, has them and their server disturbed, and has the histories checked."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.testing.proxy import Proxy
from tests.services.server import Server
from tests.soak.brokers import UNANSWERED, url_of
from tests.soak.checker import Verdict, check
from tests.soak.history import Identity, Reader
from tests.soak.nemesis import END_TIMEOUT_S, Nemesis, Schedule, Stage
from tests.soak.worker import Job, key_of

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Plan:
    messages: int
    nemeses: Sequence[Nemesis] = ()
    producers: int = 2
    consumers: int = 3
    batch: int = 50
    pause_s: float = 0.0
    """How long a producer rests between batches."""
    concurrency: int = 1
    handling_s: float = 0.0
    """How long a handler takes at most."""
    patience_s: float = 900.0
    """Seconds after which the run has failed."""

    @property
    def each(self) -> int:
        """How many messages each producer publishes."""
        return self.messages // self.producers

    @property
    def wanted(self) -> int:
        return self.each * self.producers


@dataclass
class Report:
    plan: Plan
    verdict: Verdict
    strikes: dict[str, int]
    """How often each nemesis struck."""
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether everything was confirmed and handled, and every promise kept."""
        return self.verdict.confirmed == self.plan.wanted and self.verdict.is_sound

    def __str__(self) -> str:
        struck = ", ".join(f"{name} {times} times" for name, times in self.strikes.items()) or "undisturbed"
        return f"{self.verdict}\n  {struck}; {self.seconds:.0f} s"


@dataclass
class Running:
    """A member and the process that it is at the moment. Implements ``nemesis.Member``."""

    job: Job
    settled: set[Identity]
    """What it has handled or put aside, and a producer confirmed, is added here."""
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    is_ready: bool = False
    worked: bool = False
    at_work: int = 0
    """How many of its handlers or publishing calls are at work."""

    def __post_init__(self) -> None:
        self.name = self.job.name
        self.kind = self.job.kind
        self.reader = Reader(self.job.history)

    @property
    def has_worked(self) -> bool:
        return self.worked and self.process is not None and self.process.poll() is None

    @property
    def is_busy(self) -> bool:
        self.read()
        return self.has_worked and self.at_work > 0

    def start(self) -> None:
        self.is_ready = self.worked = False
        with self.job.history.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.worker", self.job.written()],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )

    def read(self) -> None:
        """Take note of what it has done since the last call."""
        for event in self.reader.read():
            self.worked = self.is_ready
            match event:
                case ["life", *_]:
                    self.is_ready = self.worked = False
                    self.at_work = 0
                case ["ready", *_]:
                    self.is_ready = True
                case ["begun", *_]:
                    self.at_work += 1
                case ["sending", *_]:
                    # An error may have ended the call before this one.
                    self.at_work = 1
                case ["confirmed", _, producer, first, until]:
                    self.at_work = 0
                    self.settled.update((producer, number) for number in range(first, until))
                case ["handled", _, producer, number]:
                    self.at_work -= 1
                    self.settled.add((producer, number))
                case ["aside", _, producer, number]:
                    self.settled.add((producer, number))


class Conductor:
    """``server`` is ``None`` where there is none."""

    def __init__(self, scheme: str, folder: Path, plan: Plan, server: Server | None) -> None:
        self._scheme = scheme
        self._folder = folder
        self._plan = plan
        self._server = server
        self._schedules = [
            Schedule(nemesis, plan.wanted) for nemesis in plan.nemeses if nemesis.suits(scheme)
        ]
        self._members: list[Running] = []
        self._listening = False
        self._confirmed: set[Identity] = set()
        self._done: set[Identity] = set()
        """Handled or put aside."""

    def run(self) -> Report:
        started = time.monotonic()
        with self._proxy() as proxy:
            self._members = self._cast(proxy)
            stage = Stage(self._folder, self._members, self._server, proxy)
            prepared: list[Nemesis] = []
            try:
                for schedule in self._schedules:
                    schedule.nemesis.prepare(stage)
                    prepared.append(schedule.nemesis)
                self._conduct(stage, started + self._plan.patience_s)
            finally:
                for schedule in self._schedules:
                    schedule.heal(stage)
                self._end()
                for nemesis in prepared:
                    nemesis.finish(stage)
        self._read()
        histories = {each.name: each.reader.events for each in self._members}
        return Report(
            self._plan,
            check(histories, key_of, answered=self._scheme not in UNANSWERED),
            {each.nemesis.name: each.strikes for each in self._schedules},
            time.monotonic() - started,
        )

    @contextlib.contextmanager
    def _proxy(self) -> Iterator[Proxy | None]:
        if self._server is None or not any(each.nemesis.cuts_network for each in self._schedules):
            yield None
            return
        with self._server.proxy() as proxy:
            yield proxy

    def _cast(self, proxy: Proxy | None) -> list[Running]:
        """The members. Every other one goes through the proxy, if there is one."""
        plan, quick = self._plan, any(each.nemesis.quick_leases for each in self._schedules)
        servers = [None if self._server is None else self._server.url]
        servers.append(servers[0] if proxy is None else proxy.url)
        channel = f"soak-{secrets.token_hex(4)}"
        return [
            Running(
                Job(
                    kind=kind,
                    number=number,
                    folder=str(self._folder),
                    broker=url_of(self._scheme, servers[number % 2], self._folder, quick_leases=quick),
                    channel=channel,
                    count=plan.each,
                    batch=plan.batch,
                    pause_s=plan.pause_s,
                    concurrency=plan.concurrency,
                    handling_s=plan.handling_s,
                ),
                self._confirmed if kind == "producer" else self._done,
            )
            for kind, count in (("producer", plan.producers), ("consumer", plan.consumers))
            for number in range(count)
        ]

    def _conduct(self, stage: Stage, deadline: float) -> None:
        while self._is_unfinished() and time.monotonic() < deadline:
            self._tend()
            self._read()
            if self._server is not None:
                self._server.check()
            for schedule in self._schedules:
                schedule.step(stage, len(self._done))
            time.sleep(0.05)

    def _is_unfinished(self) -> bool:
        """Whether messages are missing, or a strike is to be healed: a stopped member goes on then."""
        if len(self._confirmed) < self._plan.wanted:
            return True
        return any(each.is_striking for each in self._schedules) or not self._confirmed <= self._done

    def _tend(self) -> None:
        """Start what is not running and not done.

        Producers wait for a consumer: on a broker without history its group gets only what comes after it.
        """
        self._listening = self._listening or any(
            each.is_ready for each in self._members if each.kind == "consumer"
        )
        for member in self._members:
            if member.process is not None and member.process.poll() is None:
                continue
            if member.kind == "consumer" or (self._listening and not self._has_published(member)):
                member.start()

    def _has_published(self, member: Running) -> bool:
        return (member.job.number, self._plan.each - 1) in self._confirmed

    def _read(self) -> None:
        for member in self._members:
            member.read()

    def _end(self) -> None:
        """What consumers have begun they finish and acknowledge: that belongs to the history."""
        processes = [each.process for each in self._members if each.process is not None]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + END_TIMEOUT_S
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.wait()
