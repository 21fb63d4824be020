"""The world ``sink``: the pipeline's decide-and-commit, with a crash at every call of files and tables.

The code that runs is the real one: ``State`` and ``BatchCommit``. Spark and the tables are doubles. Spark
tries a batch again until its commit has returned, each time with other files, since the workers write again.
In each try other messages may be valid: somebody has registered a schema. A double of a table does what it is
told, so what keeps a batch from being committed twice is the code under test.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from dragoman.core.disk import make_folders
from dragoman.pipeline.commit import BatchCommit
from dragoman.pipeline.events import Totals
from dragoman.pipeline.state import Decision, State
from dragoman.pipeline.tables.table import DataFile
from dragoman.testing.simulation.disk import Crash, Fault, Kill, PowerFailure, Process, Short, SimulatedDisk
from dragoman.testing.simulation.scenario import Violation

FOLDER = Path("/tables/_dragoman/flow")
APPLICATION = "flow"


@dataclass(frozen=True, slots=True)
class Batch:
    """Spark runs a batch of so many messages, or tries the one again that was cut short."""

    messages: int
    luck: int
    """Which messages are valid this time."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Something goes wrong in the driver, after so many calls (of one name)."""

    what: Fault | Short | Kill | PowerFailure
    calls: int
    call: str = ""


@dataclass(frozen=True, slots=True)
class PowerCut:
    luck: int


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Files that are in no table and promised to none are removed."""


Event = Batch | Arm | PowerCut | Vacuum


class SinkWorld:
    name = "sink"

    def events(self, random: Random) -> list[Event]:
        kinds = ["kill", "power", "fault", "vacuum"]
        chosen = ["batch"] * 4 + [kind for kind in kinds if random.random() < 0.7]
        return [_event(random, random.choice(chosen)) for _ in range(random.randrange(4, 40))]

    def run(self, seed: int, events: Sequence[Event]) -> None:
        simulation = _Simulation(Random(f"sink {seed}"))
        for event in events:
            simulation.step(event)
        simulation.finish()


def _event(random: Random, kind: str) -> Event:
    luck, calls = random.randrange(1 << 30), random.randrange(30)
    match kind:
        case "kill":
            return Arm(Kill(luck), calls)
        case "power":
            return PowerCut(luck) if random.randrange(4) == 0 else Arm(PowerFailure(luck), calls)
        case "fault":
            call = random.choice(("open", "write", "fsync", "link", "unlink", "append"))
            error = random.choice((errno.EIO, errno.ENOSPC))
            return Arm(random.choice((Fault(error, luck), Short(luck))), random.randrange(4), call)
        case "vacuum":
            return Vacuum()
    return Batch(random.randrange(6), luck)


@dataclass(frozen=True, slots=True)
class _Row:
    batch: int
    message: int
    attempt: int


class _Table:
    """A commit is atomic. It is on the disk when it returns, and it may have happened when it does not."""

    folder = "/tables"

    def __init__(self, name: str, simulation: _Simulation) -> None:
        self.name = name
        self.rows: list[_Row] = []
        self._batches: dict[str, int] = {}
        self._simulation = simulation

    @property
    def committed(self) -> int:
        return self._batches.get(APPLICATION, -1)

    def last_batch(self, application: str) -> int:
        return self._process.effect("last_batch", lambda: self._batches.get(application, -1))

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None:
        def work() -> None:
            self._simulation.before_commit(self, batch)
            for file in files:
                if file.path not in self._simulation.files:
                    raise Violation(f"A file of batch {batch} is gone before it was committed.")
                self.rows += self._simulation.files[file.path]
            self._batches[application] = batch

        self._process.effect("append", work)

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        self.append(files, application, batch)

    @property
    def _process(self) -> Process:
        return self._simulation.process

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{name} of a table is not simulated.")


class _Simulation:
    def __init__(self, random: Random) -> None:
        self._merge_by = random.choice(((), ("id",)))
        self._random = random
        self._pids = random.choice(((1,), (1, 2), (1, 2, 3, 4)))
        """In a container the driver often has the same number again."""
        self._disk = SimulatedDisk()
        setup = self._disk.process()
        make_folders(setup, FOLDER.parent)
        self._sync_folders()
        self.files: dict[str, list[_Row]] = {}
        self.table, self.quarantine = _Table("table", self), _Table("quarantine", self)
        self._batch = 0
        self._messages: dict[int, int] = {}
        self._attempts = 0
        self._only_kills = True
        self._start()

    def _sync_folders(self) -> None:
        for folder in (Path("/"), FOLDER.parent.parent):
            self._disk.folder(folder).sync()

    def _start(self) -> None:
        """The driver starts."""
        self.process = self._disk.process()
        self._attempts += 1
        self._pid = self._random.choice(self._pids)
        self._state = State(FOLDER, disk=self.process)

    def step(self, event: Event) -> None:
        match event:
            case Batch(messages, luck):
                self._try(messages, Random(luck))
            case Arm(what, calls, call):
                self.process.arm(what, calls, call)
            case PowerCut(luck):
                self._disk.power_failure(Random(luck))
                self._restart(Random(luck))
            case Vacuum():
                self._vacuum()
        self._check()

    def _try(self, messages: int, luck: Random) -> None:
        count = self._messages.setdefault(self._batch, messages)
        commit = BatchCommit(
            APPLICATION, self._state, self.quarantine, self.table, self._merge_by, self._before_merge
        )
        self.process.start_work()
        try:
            with patch("os.getpid", lambda: self._pid):
                commit.run(self._written(count, luck))
        except Crash:
            self._restart(luck)
        except OSError:
            if not self.process.errors:
                raise
            self._only_kills = False
            self._start()
        else:
            self._batch += 1

    def _written(self, count: int, luck: Random) -> Decision:
        """What the workers have written: some messages are valid, in one file or two, the others are not."""
        self._attempts += 1
        share = luck.choice((0.0, 0.5, 0.5, 1.0))
        valid: list[_Row] = []
        rejected: list[_Row] = []
        for number in range(count):
            row = _Row(self._batch, number, self._attempts)
            (valid if luck.random() < share else rejected).append(row)
        half = luck.randrange(len(valid) + 1)
        return Decision(
            self._batch,
            count,
            tuple(self._file(rows) for rows in (valid[:half], valid[half:]) if rows),
            tuple(self._file(rows) for rows in (rejected,) if rows),
        )

    def _file(self, rows: list[_Row]) -> DataFile:
        path = f"data/{len(self.files)}-{self._attempts}.parquet"
        self.files[path] = rows
        return DataFile(path, len(rows), 100)

    def _before_merge(self, files: Sequence[DataFile]) -> None:
        if self.table.committed >= self._batch:
            raise Violation(f"Files of batch {self._batch} are read after they were merged.")

    def before_commit(self, table: _Table, batch: int) -> None:
        if table is self.table and self.quarantine.committed < batch:
            raise Violation(f"Batch {batch} is in the table before it is in the quarantine.")

    def _restart(self, luck: Random) -> None:
        """Spark may have lost the note that its last batch was committed. Then it tries this batch again."""
        if self.process not in self._disk.processes:
            self._only_kills = False
            if self._batch and luck.randrange(3) == 0 and self._batch - 1 in self._messages:
                self._batch -= 1
        self._start()

    def _vacuum(self) -> None:
        self.process.start_work()
        self.process.disarm()
        promised = set(self._state.promised())
        last = {self._batch, self._batch - 1}
        for path in [each for each in self.files if each not in promised]:
            if not any(row.batch in last and row.attempt == self._attempts for row in self.files[path]):
                self.files[path] = []
                del self.files[path]

    def _check(self) -> None:
        places: dict[tuple[int, int], list[str]] = {}
        attempts: dict[int, set[int]] = {}
        for table in (self.table, self.quarantine):
            for row in table.rows:
                places.setdefault((row.batch, row.message), []).append(table.name)
                attempts.setdefault(row.batch, set()).add(row.attempt)
        for (batch, message), names in places.items():
            if len(names) > 1:
                raise Violation(f"The message {message} of batch {batch} is in {' and in '.join(names)}.")
        for batch, made in attempts.items():
            if len(made) > 1:
                raise Violation(f"Batch {batch} was committed by {len(made)} decisions.")
        for batch, count in self._messages.items():
            if batch < self._batch:
                for message in range(count):
                    if (batch, message) not in places:
                        raise Violation(f"The message {message} of batch {batch} is nowhere.")
        if self._only_kills:
            self._check_events()

    def _check_events(self) -> None:
        """What is shown of the pipeline's progress. It is not synced: a power failure may take some of it."""
        totals = Totals(FOLDER)
        try:
            lines = bytes(self._disk.file(self._state.events).data).splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            totals.add(line)
        read = sum(count for batch, count in self._messages.items() if batch < self._batch)
        if not read <= totals.read <= read + self._messages.get(self._batch, 0):
            raise Violation(f"{totals.read} messages are shown as read, and {read} were.")

    def finish(self) -> None:
        """Everything works again: the batch that was cut short is committed, and another one."""
        self.process.disarm()
        for _ in range(2):
            self.step(Batch(3, self._attempts))
