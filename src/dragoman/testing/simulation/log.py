"""The world ``log``: the embedded log with two writing processes and two readers on a disk that fails.

The code that runs is the real one, from the channel's files down. Only the disk below it is simulated. After
each step the ledger checks what the log confirmed, delivers and reports.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol
from unittest.mock import patch

from dragoman.adapters.embedded import offsets
from dragoman.adapters.embedded.appender import Contended
from dragoman.adapters.embedded.block import HEADER, MAGIC, block_at, draft
from dragoman.adapters.embedded.channels import ChannelFiles, channel_folder, make_folders
from dragoman.adapters.embedded.errors import forget_logged
from dragoman.adapters.embedded.options import Options
from dragoman.adapters.embedded.reader import MessageReader, PartitionReader
from dragoman.adapters.embedded.reserve import Reserve
from dragoman.adapters.embedded.segment import index_path, log_path, segment_bases
from dragoman.core.disk import Disk
from dragoman.core.errors import BrokerError, DamagedLog
from dragoman.core.message import Message
from dragoman.testing.simulation.disk import (
    Crash,
    Fault,
    Kill,
    Meanwhile,
    PowerFailure,
    Process,
    Short,
    SimulatedDisk,
)
from dragoman.testing.simulation.files import File, Write
from dragoman.testing.simulation.log_ledger import Ledger
from dragoman.testing.simulation.scenario import Violation

ROOT = Path("/log")
FOLDER = channel_folder(ROOT, 1)
PARTITION = FOLDER / "0"
WRITERS = 2
READERS = 2
RESERVED = 5
"""So many offsets are reserved at a time: few, so that scenarios meet the end of what is reserved."""
FOREIGN = ("9" * 20 + ".log", "notes.log", "1.log", "00000000000000000007.log.old", "x" * 20 + ".log")


# What happens. Numbers are taken modulo what there is, so any event fits into any scenario.


@dataclass(frozen=True, slots=True)
class Append:
    """A writer appends blocks of messages of these sizes."""

    writer: int
    blocks: tuple[tuple[int, ...], ...]
    ago_ms: int = 0


@dataclass(frozen=True, slots=True)
class Sync:
    writer: int


@dataclass(frozen=True, slots=True)
class Retain:
    """Retention removes what is older."""

    writer: int
    older_ms: int


@dataclass(frozen=True, slots=True)
class Close:
    """A writer ends in good order: it syncs, gives back reserved offsets, and closes its files."""

    writer: int


@dataclass(frozen=True, slots=True)
class Read:
    reader: int
    limit: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """A reader begins again, at a part of the log."""

    reader: int
    part: float


@dataclass(frozen=True, slots=True)
class Find:
    """Look for the first message that is as young as this."""

    ago_ms: int


@dataclass(frozen=True, slots=True)
class Arm:
    """Something goes wrong in a writer, after so many calls (of one name)."""

    writer: int
    what: Fault | Short | Kill | PowerFailure
    calls: int
    call: str = ""


@dataclass(frozen=True, slots=True)
class ArmReader:
    reader: int
    what: Fault
    calls: int
    call: str = ""


@dataclass(frozen=True, slots=True)
class During:
    """While a reader reads, after so many of its calls, something else happens."""

    reader: int
    calls: int
    event: Append | Retain | Close | Sync


@dataclass(frozen=True, slots=True)
class DuringAppend:
    """While a writer appends, after so many of its calls, a reader reads."""

    writer: int
    calls: int
    event: Read


@dataclass(frozen=True, slots=True)
class PowerCut:
    luck: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A bit of some file changes on the disk."""

    file: int
    part: float
    bit: int
    of: str = "log"


@dataclass(frozen=True, slots=True)
class Cut:
    """Somebody truncates a segment that is not the last one."""

    file: int
    part: float


@dataclass(frozen=True, slots=True)
class Remove:
    """Somebody removes a segment."""

    file: int


@dataclass(frozen=True, slots=True)
class Foreign:
    """A file of other people appears among the segments."""

    name: int
    size: int


@dataclass(frozen=True, slots=True)
class Room:
    """How much room there is on the disk from now on; ``None`` for enough."""

    size: int | None


@dataclass(frozen=True, slots=True)
class Tick:
    ms: int


Event = (
    Append
    | Sync
    | Retain
    | Close
    | Read
    | Rewind
    | Find
    | Arm
    | ArmReader
    | During
    | DuringAppend
    | PowerCut
    | Flip
    | Cut
    | Remove
    | Foreign
    | Room
    | Tick
)


class OpenLog(Protocol):
    """One process's view of the log. Errors are ``BrokerError``."""

    def bounds(self) -> tuple[int, int] | None: ...

    def recover(self) -> None: ...

    def append(self, blocks: Sequence[Sequence[Message]], now_ms: int) -> list[int]: ...

    def sync(self) -> None: ...

    def settle(self) -> None: ...

    def drop_before(self, timestamp: int) -> None: ...

    def read(self, start: int, end: int, limit: int) -> list[Message]: ...

    def offset_at(self, timestamp: int) -> int | None: ...

    def close(self) -> None: ...


class CurrentLog:
    """The code as it is."""

    def __init__(self, disk: Disk, options: Options, *, full: bool) -> None:
        self._reserve = Reserve(ROOT, disk) if full else None
        self._files = ChannelFiles(ROOT, 1, "c", options, self._reserve, disk=disk)
        self._reader = MessageReader(PARTITION, "c", 0, self._files.bounds, disk)
        self._seeker = PartitionReader(PARTITION, self._files.bounds, 0, disk)

    @staticmethod
    def create(disk: Disk) -> None:
        make_folders(FOLDER, 1, sync=True, disk=disk)

    def bounds(self) -> tuple[int, int] | None:
        return self._files.bounds.record(0)

    def recover(self) -> None:
        self._files.recover()

    def append(self, blocks: Sequence[Sequence[Message]], now_ms: int) -> list[int]:
        drafts = [draft(block, now_ms) for block in blocks]
        try:
            return self._files.appender(0).append(drafts, wait=False)
        except Contended:  # offsets must be reserved first
            return self._files.appender(0).append(drafts, wait=True)

    def sync(self) -> None:
        self._files.sync()

    def settle(self) -> None:
        self._files.settle()

    def drop_before(self, timestamp: int) -> None:
        self._files.drop_before(timestamp)

    def read(self, start: int, end: int, limit: int) -> list[Message]:
        return self._reader.read(start, end, limit)

    def offset_at(self, timestamp: int) -> int | None:
        return self._seeker.offset_at(timestamp)

    def close(self) -> None:
        self._reader.close()
        self._seeker.close()
        self._files.close()
        if self._reserve is not None:
            self._reserve.close()


class LogVersion(Protocol):
    """How the log is made and opened. ``CurrentLog`` is one, an older version may be another."""

    def __call__(self, disk: Disk, options: Options, *, full: bool) -> OpenLog: ...

    def create(self, disk: Disk) -> None: ...


class LogWorld:
    name = "log"

    def __init__(self, version: LogVersion = CurrentLog) -> None:
        self._version = version

    def events(self, random: Random) -> list[Event]:
        return Scenario(random).events()

    def run(self, seed: int, events: Sequence[Event]) -> None:
        with patch.object(offsets, "AT_ONCE", RESERVED):
            simulation = _Simulation(self._version, Random(f"log {seed}"))
            for event in events:
                simulation.step(event)
            simulation.finish()


class Scenario:
    """Events of one seed. Each seed leaves out some kinds of faults, so that the others get farther."""

    def __init__(self, random: Random) -> None:
        self._random = random
        kinds: list[tuple[Callable[[], Event], float]] = [
            (self._kill, 1.5),
            (self._power_failure, 1.5),
            (self._fault, 2),
            (self._fault_of_reader, 0.7),
            (self._flip, 1.0),
            (self._damage, 0.6),
            (self._during, 2.5),
            (self._retain, 1.5),
            (self._room, 0.6),
            (self._rest, 2),
        ]
        chosen = [each for each in kinds if random.random() < 0.45]
        self._kinds: list[tuple[Callable[[], Event], float]] = [
            (self._append, 10),
            (self._sync, 1),
            (self._read, 5),
            *chosen,
        ]
        self._large = random.random() < 0.08

    def events(self) -> list[Event]:
        works, weights = zip(*self._kinds, strict=True)
        return [work() for work in self._random.choices(works, weights, k=self._random.randrange(8, 45))]

    def _writer(self) -> int:
        return self._random.randrange(WRITERS)

    def _reader(self) -> int:
        return self._random.randrange(READERS)

    def _luck(self) -> int:
        return self._random.randrange(1 << 30)

    def _append(self) -> Append:
        random = self._random
        most = 150_000 if self._large else random.choice((20, 60, 300))
        blocks = tuple(
            tuple(random.randrange(most) for _ in range(random.choice((1, 1, 2, 4))))
            for _ in range(random.choice((1, 1, 1, 2, 3)))
        )
        return Append(self._writer(), blocks, random.choice((0, 0, 0, 5, 1000)))

    def _sync(self) -> Event:
        return self._random.choice((Sync(self._writer()), Sync(self._writer()), Close(self._writer())))

    def _read(self) -> Event:
        random = self._random
        if random.randrange(8) == 0:
            return Rewind(self._reader(), random.random())
        return Read(self._reader(), random.choice((1, 3, 100)))

    def _retain(self) -> Event:
        return self._random.choice((Retain(self._writer(), self._random.choice((0, 5, 50))), Tick(10)))

    def _rest(self) -> Event:
        return self._random.choice((Tick(5), Tick(100), Find(self._random.choice((0, 5, 50, 1000)))))

    def _calls(self) -> int:
        return self._random.choice((0, 1, 2, 3, 5, 8, 13, 20, 30, 50))

    def _kill(self) -> Event:
        return Arm(self._writer(), Kill(self._luck()), self._calls())

    def _power_failure(self) -> Event:
        if self._random.randrange(3) == 0:
            return PowerCut(self._luck())
        return Arm(self._writer(), PowerFailure(self._luck()), self._calls())

    def _fault(self) -> Event:
        call, error = self._random.choice(
            (
                ("fsync", errno.EIO),
                ("fsync", errno.EIO),
                ("fsync", errno.ENOSPC),
                ("pwrite", errno.EIO),
                ("pwrite", errno.ENOSPC),
                ("pread", errno.EIO),
                ("open", errno.EMFILE),
                ("open", errno.ENOSPC),
                ("ftruncate", errno.EIO),
                ("truncate", errno.EIO),
                ("unlink", errno.EIO),
                ("listdir", errno.EIO),
                ("pwrite", 0),
            )
        )
        what = Fault(error, self._luck()) if error else Short(self._luck())
        return Arm(self._writer(), what, self._random.choice((0, 0, 1, 2, 4)), call)

    def _fault_of_reader(self) -> Event:
        call, error = self._random.choice(
            (("pread", errno.EIO), ("open", errno.EMFILE), ("listdir", errno.EMFILE), ("stat", errno.EIO))
        )
        return ArmReader(self._reader(), Fault(error), self._random.choice((0, 1, 2, 4)), call)

    def _flip(self) -> Event:
        of = self._random.choice(("log", "log", "log", "log", "idx", "bounds"))
        return Flip(self._random.randrange(100), self._random.random(), self._random.randrange(8), of)

    def _damage(self) -> Event:
        random = self._random
        return random.choice(
            (
                Cut(random.randrange(100), random.random()),
                Cut(random.randrange(100), random.random()),
                Remove(random.randrange(100)),
                Foreign(random.randrange(100), random.choice((0, 7, 500))),
            )
        )

    def _during(self) -> Event:
        random = self._random
        calls = random.choice((0, 1, 2, 3, 4, 5, 6, 8, 10, 15))
        if random.randrange(4) == 0:
            return DuringAppend(self._writer(), calls, Read(self._reader(), random.choice((1, 100))))
        event = random.choice((self._append, self._append, self._append, self._retain))()
        if isinstance(event, Tick):
            return event
        assert isinstance(event, Append | Retain)
        return During(self._reader(), calls, event)

    def _room(self) -> Event:
        return Room(self._random.choice((None, None, 0, 100, 2000)))


@dataclass(slots=True)
class _Writer:
    process: Process
    log: OpenLog | None = None
    unsynced: list[int] | None = None
    """What it has confirmed since it was opened, or synced."""
    failed: set[int] = field(default_factory=set)
    """The files and folders of which a sync failed since it was opened."""
    must_fail: bool = False
    """A sync of the log failed: it may confirm nothing more."""
    may_fail: bool = False
    """What an append had written could perhaps not be taken back."""

    def begin(self, log: OpenLog | None) -> None:
        self.log, self.unsynced = log, None if log is None else []
        self.must_fail = self.may_fail = False
        self.failed.clear()


@dataclass(slots=True)
class _Reader:
    process: Process
    log: OpenLog | None = None
    position: int = 0


class _Simulation:
    def __init__(self, version: LogVersion, random: Random) -> None:
        # What was logged once is not logged again, so it would be missing in the second of two runs.
        forget_logged()
        self._version = version
        self._options = Options(
            root=ROOT,
            fsync=random.choice(("always", "always", "batch", "never")),
            segment_bytes=random.choice((1, 150, 150, 400, 1500, 400_000)),
        )
        self._full = random.random() < 0.2
        self._disk = SimulatedDisk()
        setup = self._disk.process()
        setup.mkdir(ROOT)
        version.create(setup)
        self._disk.root.sync()
        self._ledger = Ledger(always=self._options.fsync == "always")
        self._writers = [_Writer(self._disk.process()) for _ in range(WRITERS)]
        self._readers = [_Reader(self._disk.process()) for _ in range(READERS)]
        self._sent = 0
        self._reread = False
        """What was read before may have changed."""
        self._is_harmed = False
        self._flips: dict[int, dict[int, tuple[int, int]]] = {}
        """By file and place: the byte after the flip, and the bit."""
        self._gaps: set[int] = set()
        """Offsets that gaps in the log have held, at some time."""
        self._checked_to = 0
        self._is_between = False
        self._is_recovered = True
        """A writer has opened the log since the last power failure. Before, the bounds may be older."""

    # Steps.

    def step(self, event: Event) -> None:
        self._do(event)
        self._check()

    def _do(self, event: Event) -> None:
        match event:
            case Append():
                self._append(event)
            case Sync(number):
                self._sync(self._writers[number])
            case Retain():
                self._retain(event)
            case Close(number):
                self._close(self._writers[number])
            case Read(number, limit):
                self._read(self._readers[number], limit)
            case Rewind(number, part):
                known = max(self._ledger.known, default=0)
                self._readers[number].position = int(part * (known + 1))
            case Find(ago):
                self._find(self._now - ago)
            case Arm(number, what, calls, call):
                self._writers[number].process.arm(what, calls, call)
            case ArmReader(number, what, calls, call):
                self._readers[number].process.arm(what, calls, call)
            case During(number, calls, other):
                self._arm_other(self._readers[number].process, calls, other)
            case DuringAppend(number, calls, other):
                self._arm_other(self._writers[number].process, calls, other)
            case PowerCut(luck):
                self._disk.power_failure(Random(luck))
            case Tick(ms):
                self._disk.now_ns += ms * 1_000_000
            case Room(size):
                self._disk.room = size
            case _:
                self._harm(event)

    def _arm_other(self, process: Process, calls: int, event: Event) -> None:
        process.arm(Meanwhile(lambda: self._do_between(event)), calls)

    def _do_between(self, event: Event) -> None:
        """Only one deep: a second writer would wait for the lock of the first."""
        if not self._is_between:
            self._is_between = True
            try:
                self._do(event)
            finally:
                self._is_between = False

    @property
    def _now(self) -> int:
        return self._disk.now_ns // 1_000_000

    # Writers.

    def _opened(self, writer: _Writer) -> OpenLog | None:
        """The log as this writer has it; ``None`` if it cannot be opened because of a fault."""
        self._look_for_power_failure()
        if writer.log is not None:
            return writer.log
        process = writer.process
        log: OpenLog | None = None
        try:
            log = self._version(process, self._options, full=self._full)
            log.recover()
        except Crash:
            self._died(writer)
        except BrokerError as error:
            self._expected(process, error)
            if log is not None:
                self._end(log)
            self._replace(writer)
        except OSError:
            # The folder's reserve is opened by the broker, which reports this.
            if not self._full or not process.spent:
                raise
            self._replace(writer)
        else:
            writer.begin(log)
            self._ledger.recovered()
            self._is_recovered = True
            self._note_failed_sync(writer)
        self._reread = True
        return writer.log

    def _append(self, event: Append) -> None:
        writer = self._writers[event.writer]
        blocks = [[self._message(size, event.ago_ms) for size in block] for block in event.blocks]
        messages = [message for block in blocks for message in block]
        log = self._opened(writer)
        if log is None:
            return
        writer.process.start_work()
        self._ledger.tried(messages)
        try:
            offsets = log.append(blocks, self._now)
        except Crash:
            self._died(writer)
        except Contended:
            self._ledger.refused(messages)
        except BrokerError as error:
            self._expected(writer.process, error, writer)
            writer.may_fail = writer.may_fail or bool(writer.process.spent)
            self._note_failed_sync(writer)
            if writer.process.errors < 2:
                self._ledger.refused(messages)
            self._reread = True
        else:
            if writer.must_fail:
                raise Violation("A writer whose sync failed confirms messages without being opened again.")
            assert writer.unsynced is not None
            for first, block in zip(offsets, blocks, strict=True):
                writer.unsynced += self._ledger.confirmed(first, block)
            self._note_failed_sync(writer)

    def _message(self, size: int, ago_ms: int) -> Message:
        number = self._sent = self._sent + 1
        payload = b"%06d:" % number + bytes((number * 31 + at) % 251 for at in range(min(size, 300)))
        if size > 300:
            payload += payload[-100:] * (size // 100)
        key = b"k%d" % number if number % 3 else None
        headers = (("h", b"%d" % number),) if number % 4 == 0 else ()
        return Message(
            "c", payload if number % 11 else None, key or b"%d" % number, headers, 0, None, self._now - ago_ms
        )

    def _sync(self, writer: _Writer) -> None:
        if self._options.fsync == "never":
            return
        log = self._opened(writer)
        if log is None:
            return
        writer.process.start_work()
        try:
            log.sync()
        except Crash:
            self._died(writer)
        except BrokerError as error:
            self._expected(writer.process, error, writer)
            self._note_failed_sync(writer)
        else:
            self._note_failed_sync(writer)
            if not writer.must_fail and writer.unsynced is not None:
                self._ledger.synced(writer.unsynced)
                writer.unsynced = []

    def _retain(self, event: Retain) -> None:
        writer = self._writers[event.writer]
        log = self._opened(writer)
        if log is None:
            return
        writer.process.start_work()
        before = self._now - event.older_ms
        try:
            log.drop_before(before)
        except Crash:
            self._died(writer)
        except Contended:
            pass
        except BrokerError as error:
            self._expected(writer.process, error, writer)
        self._note_failed_sync(writer)
        self._reread = True
        found = self._stored_bounds()
        if found is not None:
            self._ledger.removed(found[0], before)

    def _close(self, writer: _Writer) -> None:
        if writer.log is None:
            return
        self._sync(writer)
        self._settle(writer)
        log, process = writer.log, writer.process
        if log is not None:
            process.disarm()
            process.start_work()
            log.close()
            if process.open_files:
                raise Violation(f"{process.open_files} files are still open after everything was closed.")
            self._replace(writer)

    def _settle(self, writer: _Writer) -> None:
        if writer.log is None:
            return
        writer.process.start_work()
        try:
            writer.log.settle()
        except Crash:
            self._died(writer)
        else:
            self._note_failed_sync(writer)

    def _end(self, log: OpenLog) -> None:
        with suppress(Crash, BrokerError, OSError):
            log.close()

    def _replace(self, writer: _Writer) -> None:
        writer.process.die()
        if writer.process in self._disk.processes:
            self._disk.processes.remove(writer.process)
        writer.process = self._disk.process()
        writer.begin(None)

    def _died(self, writer: _Writer) -> None:
        if writer.process.is_dead and writer.process in self._disk.processes:
            self._replace(writer)
        self._look_for_power_failure()
        self._reread = True

    def _expected(self, process: Process, error: BrokerError, writer: _Writer | None = None) -> None:
        """Nothing is refused without a reason."""
        if process.spent or self._disk.room is not None or (writer is not None and writer.must_fail):
            return
        if writer is not None and (writer.may_fail or process.failed_syncs):
            return
        raise error

    def _note_failed_sync(self, writer: _Writer) -> None:
        if writer.process.failed_syncs:
            self._ledger.bounds_torn()  # and perhaps written again at once
        folder = self._disk.folder(PARTITION)
        beside = {self._disk.entry(FOLDER / "bounds").number}
        if "offsets" in folder.names:
            beside.add(folder.names["offsets"].number)
        failed = writer.process.failed_syncs - beside
        if failed - writer.failed:
            writer.failed |= failed
            # The folder is synced for segments, or for reserved offsets. Its names stay to be stored.
            writer.must_fail = bool(writer.failed - {folder.number})
            self._ledger.sync_failed()
            self._reread = True

    def _look_for_power_failure(self) -> None:
        """If the power failed, all processes are gone."""
        if all(process in self._disk.processes for process in self._everybody()):
            return
        for writer in self._writers:
            writer.process = self._disk.process()
            writer.begin(None)
        for reader in self._readers:
            reader.process = self._disk.process()
            reader.log = None
        found = self._stored_bounds()
        self._ledger.power_failed(None if found is None else found[1])
        self._is_recovered = False
        self._reread = True

    def _everybody(self) -> list[Process]:
        return [each.process for each in self._writers] + [each.process for each in self._readers]

    def _stored_bounds(self) -> tuple[int, int] | None:
        data = self._disk.file(FOLDER / "bounds").data
        numbers = [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, 32, 8)]
        start, start_check, end, end_check = numbers
        return (start, end) if start == ~start_check and end == ~end_check else None

    # Readers.

    def _read(self, reader: _Reader, limit: int) -> None:
        self._look_for_power_failure()
        process = reader.process
        process.start_work()
        try:
            if reader.log is None:
                reader.log = self._version(process, self._options, full=False)
            bounds = reader.log.bounds()
            if bounds is not None:
                self._read_on(reader, reader.log, bounds, limit)
        except Crash:
            self._look_for_power_failure()
        except BrokerError:
            if not process.spent:
                raise

    def _read_on(self, reader: _Reader, log: OpenLog, bounds: tuple[int, int], limit: int) -> list[Message]:
        start, end = bounds
        reader.position = max(reader.position, start)
        if reader.position >= end:
            return []
        try:
            messages = log.read(reader.position, end, limit)
        except DamagedLog as error:
            if error.first < reader.position:
                raise Violation(f"At {reader.position} the damage of {error.first} is reported.") from None
            self._passed_over(reader.position, error.first)
            self._ledger.damaged(error.first, min(error.until, end))
            reader.position = error.until
            return []
        moved = self._stored_bounds()
        for message in messages:
            offset = message.offset
            assert offset is not None
            if offset < reader.position:
                raise Violation(f"After {reader.position - 1} comes {offset}.")
            if moved is not None:
                self._passed_over(max(reader.position, moved[0], self._ledger.start), offset)
            if offset >= end:
                raise Violation(f"{offset} is delivered, and the log ends at {end}.")
            self._ledger.read(message)
            reader.position = offset + 1
        if not messages and not reader.process.spent:
            if not self._is_gap(reader.position, end):
                raise Violation(f"Nothing is read at {reader.position}, and the log ends at {end}.")
            self._passed_over(reader.position, end)
            reader.position = end
        return messages

    def _passed_over(self, first: int, until: int) -> None:
        """The log says that it has no messages there."""
        if first < until:
            if not self._is_gap(first, until):
                raise Violation(f"After {first - 1} comes {until}.")
            self._ledger.left_out(first, until)

    def _is_gap(self, first: int, until: int) -> bool:
        self._look_for_gaps()
        return self._gaps.issuperset(range(first, until))

    def _look_for_gaps(self) -> None:
        if self._ledger.may_leave_out:
            self._gaps |= self._stored_gaps()

    def _stored_gaps(self) -> set[int]:
        found: set[int] = set()
        for name, file in self._disk.folder(PARTITION).names.items():
            if not name.endswith(".log") or not isinstance(file, File):
                continue
            at = file.data.find(MAGIC)
            while at >= 0:
                block = block_at(memoryview(bytes(file.data[at : at + HEADER.size])), 0)
                if block is not None and block.is_gap:
                    found.update(range(block.base, block.end))
                at = file.data.find(MAGIC, at + 1)
        return found

    def _find(self, timestamp: int) -> None:
        self._look_for_power_failure()
        bounds = self._stored_bounds()
        if bounds is None or self._is_harmed:
            return
        gaps = self._stored_gaps()
        if any(at not in self._ledger.known and at not in gaps for at in range(*bounds)):
            return
        log = self._version(self._disk.process(), self._options, full=False)
        start, end = bounds
        found = log.offset_at(timestamp)
        log.close()
        found = end if found is None else min(max(found, start), end)
        known = self._ledger.known
        young = (at for at in range(start, end) if at in known and (known[at][3] or 0) >= timestamp)
        right = next(young, end)
        if found != right:
            raise Violation(f"The first message since {timestamp} is {right}, not {found}.")

    # Damage.

    def _harm(self, event: Event) -> None:
        self._look_for_power_failure()
        bases = segment_bases(PARTITION, self._disk.process())
        match event:
            case Flip(_, part, bit, "bounds"):
                file = self._disk.file(FOLDER / "bounds")
                place = int(part * file.size)
                if self._stored_bounds() is not None and file.is_stored(place):
                    file.flip(place, bit)
                    self._ledger.harm_bounds()
                    self._is_harmed = True
            case Flip(number, part, bit, "idx") if bases:
                path = index_path(PARTITION, bases[number % len(bases)])
                index = self._disk.folder(PARTITION).names.get(path.name)
                if isinstance(index, File) and index.size and index.is_stored(int(part * index.size)):
                    index.flip(int(part * index.size), bit)
            case Flip(number, part, bit) if bases:
                base = bases[number % len(bases)]
                file = self._disk.file(log_path(PARTITION, base))
                place = int(part * file.size)
                if file.size and file.is_stored(place):
                    self._ledger.harm(self._offsets_in(file, place, place + 1))
                    file.flip(place, bit)
                    self._flips.setdefault(file.number, {})[place] = file.data[place], bit
                    self._is_harmed = self._reread = True
            case Cut(number, part) if len(bases) > 1:
                file = self._disk.file(log_path(PARTITION, bases[number % (len(bases) - 1)]))
                if not file.changes:
                    # A writer whose segment loses exactly its seal is not told that there is a later one.
                    size = int(part * max(0, file.size - HEADER.size))
                    self._ledger.harm(self._offsets_in(file, size, file.size))
                    file.cut(size)
                    self._is_harmed = self._reread = True
            case Remove(number) if bases:
                path = log_path(PARTITION, bases[number % len(bases)])
                file, folder = self._disk.file(path), self._disk.folder(PARTITION)
                held = self._offsets_in(file, 0, file.size)
                # Who reads it goes on in it, also with what a dead writer has left there unconfirmed.
                if not folder.changes and self._ledger.given.keys() >= set(held) - self._gaps:
                    self._ledger.harm(held)
                    folder.change({path.name: None}, self._disk.now_ns)
                    folder.sync()
                    self._is_harmed = self._reread = True
            case Foreign(number, size):
                name = FOREIGN[number % len(FOREIGN)]
                folder = self._disk.folder(PARTITION)
                if name not in folder.names and not folder.changes:
                    file = File(self._disk.new_number())
                    file.change(Write(0, bytes(number % 256 for _ in range(size))), self._disk.now_ns)
                    file.sync()
                    folder.change({name: file}, self._disk.now_ns)
                    folder.sync()

    def _offsets_in(self, file: File, first: int, last: int) -> list[int]:
        """The offsets whose blocks have bytes in this range of a segment, as it was before flips."""
        data, place = bytearray(file.data), 0
        found: list[int] = []
        for flipped, (byte, bit) in self._flips.get(file.number, {}).items():
            if flipped < len(data) and data[flipped] == byte:
                data[flipped] ^= 1 << bit
        while 0 <= place < last:
            block = block_at(memoryview(data), place)
            if block is None:  # a power failure has torn it
                place = data.find(MAGIC, place + 1)
                continue
            if place + block.size > first:
                found += range(block.base, block.end)
            place += block.size
        return found

    # Checks.

    def _check(self) -> None:
        self._look_for_power_failure()
        self._look_for_gaps()
        bounds = self._stored_bounds()
        if bounds is None:
            self._ledger.bounds_torn()
            return
        checker = _Reader(self._disk.process())
        if not self._reread:
            checker.position = max(self._checked_to, bounds[0])
        self._read_all(checker, bounds)
        self._disk.processes.remove(checker.process)

    def _read_all(self, checker: _Reader, bounds: tuple[int, int]) -> None:
        start, end = bounds
        everything, self._reread = self._reread, False
        found: set[int] = set()
        reported: set[int] = set()
        if max(checker.position, start) < end:
            log = checker.log = self._version(checker.process, self._options, full=False)
            while max(checker.position, start) < end:
                first = max(checker.position, start)
                checker.process.start_work()
                messages = self._read_on(checker, log, bounds, 50)
                if messages:
                    found.update(message.offset or 0 for message in messages)
                else:
                    reported.update(range(first, checker.position))
            log.close()
        if not self._is_recovered:
            self._reread = True
        elif everything:
            self._ledger.complete(start, end, found, reported)
        elif self._ledger.known and max(self._ledger.known) >= max(end, self._checked_to):
            raise Violation(f"The log ends at {end}, and {max(self._ledger.known)} was confirmed.")
        self._checked_to = end

    def finish(self) -> None:
        """Everything works again: the log is opened, takes messages, and has all that it must have."""
        self._disk.room = None
        for process in self._everybody():
            process.disarm()
        for writer in self._writers:
            self._close(writer)
        self.step(Append(0, ((10,), (20, 30))))
        self.step(Append(1, ((10,),)))
        self._reread = True
        self.step(Read(0, 10_000))
