"""A disk in memory under real code: it loses what was not synced, flips bits, refuses calls and crashes.

Each simulated process calls the disk through a ``Process``, which is a ``Disk``. All that may happen is armed
in advance with ``Process.arm`` and happens at a call: so a process dies in the midst of its work, as it does
in life, and another one may run between any two of its calls.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from dragoman.core.disk import Data
from dragoman.testing.simulation.files import File, Folder, Resize, Write
from dragoman.testing.simulation.scenario import Violation

T = TypeVar("T")
CALLS_MAX = 20_000
"""Of one piece of work: one that makes more does not end."""


class Crash(BaseException):
    """The process died in a call. Nothing that it does from now on has an effect."""


class State(NamedTuple):
    st_ino: int
    st_size: int
    st_nlink: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A call of this name, or any call, ends with an error of the system."""

    error: int
    luck: int = 0


@dataclass(frozen=True, slots=True)
class Short:
    """A write takes only a part of the bytes."""

    luck: int = 0


@dataclass(frozen=True, slots=True)
class Kill:
    """The process dies before the call, in the midst of it, or after it. The system and its memory stay."""

    luck: int = 0


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """All processes die, and what was not synced may be lost."""

    luck: int = 0


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Before the call something else runs, for example another process."""

    work: Callable[[], object]


What = Fault | Short | Kill | PowerFailure | Meanwhile


@dataclass(slots=True)
class _Armed:
    call: str
    left: int
    what: What


@dataclass(slots=True)
class _Handle:
    entry: File | Folder
    flags: int
    failures: int
    place: int = 0


class SimulatedDisk:
    """The files, and the processes that use them."""

    def __init__(self) -> None:
        self._numbers = 0
        self.now_ns = 1_000_000_000
        """Only moved by the scenario, so changes may have the same time, as those within a tick have."""
        self.room: int | None = None
        """Bytes that are free; ``None`` if there is no limit."""
        self.root = Folder(0)
        self.processes: list[Process] = []
        self.boots = 1
        """How often the machine was started."""

    def process(self) -> Process:
        started = Process(self)
        self.processes.append(started)
        return started

    def power_failure(self, luck: Random) -> None:
        """All processes die, and the machine starts again."""
        self.boots += 1
        for process in self.processes:
            process.die()
        self.processes.clear()
        seen: set[int] = set()
        waiting: list[File | Folder] = [self.root]
        while waiting:
            entry = waiting.pop()
            if entry.number in seen:
                entry.links += 1
                continue
            seen.add(entry.number)
            entry.lose(luck)
            entry.links = 1
            if isinstance(entry, Folder):
                waiting += (entry.names[name] for name in sorted(entry.names))

    def new_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def folder(self, path: Path) -> Folder:
        entry = self.entry(path)
        if not isinstance(entry, Folder):
            raise _error(errno.ENOTDIR, path)
        return entry

    def file(self, path: Path) -> File:
        entry = self.entry(path)
        if not isinstance(entry, File):
            raise _error(errno.EISDIR, path)
        return entry

    def entry(self, path: Path) -> File | Folder:
        found: File | Folder = self.root
        for part in path.parts[1:]:
            if not isinstance(found, Folder):
                raise _error(errno.ENOTDIR, path)
            if part not in found.names:
                raise _error(errno.ENOENT, path)
            found = found.names[part]
        return found

    def take(self, size: int) -> int:
        """How many of these bytes there is room for. They are taken."""
        if self.room is None:
            return size
        got = min(size, self.room) if size > 0 else size
        self.room -= got
        return got


class Process:
    """Implements ``dragoman.core.disk.Disk`` for one simulated process."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.is_dead = False
        self.calls = 0
        self.calls_max = CALLS_MAX
        self.errors = 0
        """Calls that failed since ``start_work`` because something is wrong with the disk."""
        self.spent: list[What] = []
        """What was armed and has happened since ``start_work``."""
        self.failed_syncs: set[int] = set()
        """The files and folders, by number, of which a sync failed in this process."""
        self._armed: list[_Armed] = []
        self._handles: dict[int, _Handle] = {}
        self._closed: set[int] = set()

    def arm(self, what: What, calls: int, call: str = "") -> None:
        """Let it happen after so many other calls. With ``call`` only calls of this name are counted."""
        self._armed.append(_Armed(call, calls + 1, what))

    def disarm(self) -> None:
        self._armed.clear()

    def start_work(self) -> None:
        """From here on calls are counted anew for ``calls_max``."""
        self.calls = self.errors = 0
        self.spent.clear()

    def die(self) -> None:
        self.is_dead = True
        self._armed.clear()
        for number, handle in self._handles.items():
            if handle.entry.locked_by == number:
                handle.entry.locked_by = None
        self._handles.clear()

    @property
    def open_files(self) -> int:
        return len(self._handles)

    def effect(self, name: str, work: Callable[[], T]) -> T:
        """What the process does to the outside apart from files, such as the commit of a table."""
        return self._call(name, work)

    # The calls. Each one is a function without arguments that has the effect, so that it may also not happen.

    def open(self, path: Path, flags: int, mode: int = 0o777, /) -> int:
        return self._call("open", lambda: self._opened(path, flags))

    def close(self, file: int, /) -> None:
        def work() -> None:
            handle = self._handle(file)
            if handle.entry.locked_by == file:
                handle.entry.locked_by = None
            del self._handles[file]
            self._closed.add(file)

        self._call("close", work)

    def pread(self, file: int, size: int, place: int, /) -> bytes:
        return self._call("pread", lambda: bytes(self._file(file).data[place : place + size]))

    def pwrite(self, file: int, data: Data, place: int, /) -> int:
        return self._write("pwrite", file, bytes(data), place)

    def write(self, file: int, data: Data, /) -> int:
        return self._write("write", file, bytes(data), None)

    def lseek(self, file: int, place: int, whence: int, /) -> int:
        if whence != os.SEEK_END or place:
            raise NotImplementedError("Only the end of a file is looked for.")
        return self._call("lseek", lambda: self._file(file).size)

    def fstat(self, file: int, /) -> State:
        return self._call("fstat", lambda: _state(self._handle(file).entry))

    def stat(self, path: Path, /) -> State:
        return self._call("stat", lambda: _state(self.disk.entry(path)))

    def ftruncate(self, file: int, size: int, /) -> None:
        self._call("ftruncate", lambda: self._resize(self._file(file), size))

    def truncate(self, path: Path, size: int, /) -> None:
        self._call("truncate", lambda: self._resize(self.disk.file(path), size))

    def fsync(self, file: int, /) -> None:
        def work() -> None:
            handle = self._handle(file)
            handle.entry.sync()
            if handle.failures < handle.entry.failures:
                # Another handle's sync failed meanwhile: each one that was open is told once.
                handle.failures = handle.entry.failures
                self.failed_syncs.add(handle.entry.number)
                self.errors += 1
                raise _error(errno.EIO)

        self._call("fsync", work, failed=lambda luck: self._fail_sync(file, luck))

    def flock(self, file: int, operation: int, /) -> None:
        def work() -> None:
            entry = self._handle(file).entry
            if operation & fcntl.LOCK_UN:
                entry.locked_by = None if entry.locked_by == file else entry.locked_by
            elif entry.locked_by in (None, file):
                entry.locked_by = file
            elif operation & fcntl.LOCK_NB:
                raise _error(errno.EWOULDBLOCK)
            else:
                raise Violation("A process waits for a lock that nobody gives back.")

        self._call("flock", work)

    def listdir(self, folder: Path, /) -> list[str]:
        # Folders are not sorted. Reversed, so that nobody relies on it.
        return self._call("listdir", lambda: sorted(self.disk.folder(folder).names, reverse=True))

    def mkdir(self, folder: Path, /) -> None:
        def work() -> None:
            parent = self.disk.folder(folder.parent)
            if folder.name in parent.names:
                raise _error(errno.EEXIST, folder)
            parent.change({folder.name: Folder(self.disk.new_number())}, self.disk.now_ns)

        self._call("mkdir", work)

    def link(self, path: Path, other: Path, /) -> None:
        def work() -> None:
            parent = self.disk.folder(other.parent)
            if other.name in parent.names:
                raise _error(errno.EEXIST, other)
            parent.change({other.name: self.disk.file(path)}, self.disk.now_ns)

        self._call("link", work)

    def replace(self, path: Path, other: Path, /) -> None:
        """Within one folder only, so that the two names are one change."""

        def work() -> None:
            parent = self.disk.folder(path.parent)
            if self.disk.folder(other.parent) is not parent:
                raise NotImplementedError("Files stay in their folder.")
            parent.change({path.name: None, other.name: self.disk.file(path)}, self.disk.now_ns)

        self._call("replace", work)

    def unlink(self, path: Path, /) -> None:
        def work() -> None:
            found = self.disk.file(path)
            self.disk.folder(path.parent).change({path.name: None}, self.disk.now_ns)
            if not found.links:
                self.disk.take(-found.size)

        self._call("unlink", work)

    def allocate(self, file: int, size: int, /) -> None:
        def work() -> None:
            found = self._file(file)
            if found.size < size:
                if self.disk.room is not None and self.disk.room < size - found.size:
                    raise _error(errno.ENOSPC)
                self._resize(found, size)

        self._call("allocate", work)

    def drop_cache(self, file: int, /) -> None:
        self._call("drop_cache", lambda: self._handle(file).entry.drop_cache())

    def boot_id(self) -> bytes:
        """Not a call of the disk: the real one is read once."""
        if self.is_dead:
            raise Crash
        return b"boot-%d" % self.disk.boots

    # What they do.

    def _call(
        self,
        name: str,
        work: Callable[[], T],
        *,
        failed: Callable[[Random], object] | None = None,
        torn: Callable[[Random], T] | None = None,
    ) -> T:
        """Do the work, or what was armed for this call instead.

        ``failed`` is what an error leaves behind. ``torn`` does a part of the work.
        """
        if self.is_dead:
            raise Crash
        self.calls += 1
        if self.calls > self.calls_max:
            raise Violation(f"There is no end to it: {self.calls_max} calls of the disk.")
        for armed in [each for each in self._armed if each.call in ("", name)] if self._armed else ():
            armed.left -= 1
            if armed.left:
                continue
            self._armed.remove(armed)
            if isinstance(armed.what, Short) and torn is None:
                continue
            self.spent.append(armed.what)
            match armed.what:
                case Meanwhile(other):
                    other()
                    if self.is_dead:  # the power failed
                        raise Crash
                case Fault(error, luck):
                    self.errors += 1
                    if failed is not None:
                        failed(Random(luck))
                    raise _error(error)
                case Short(luck) if torn is not None:
                    return torn(Random(luck))
                case Kill(luck) | PowerFailure(luck):
                    self._crash(armed.what, Random(luck), work, torn)
        return work()

    def _crash(
        self, what: What, luck: Random, work: Callable[[], T], torn: Callable[[Random], T] | None
    ) -> None:
        match luck.randrange(3):
            case 0:
                work()
            case 1 if torn is not None:
                torn(luck)
        self.die()
        if isinstance(what, PowerFailure):
            self.disk.power_failure(luck)
        raise Crash

    def _handle(self, file: int) -> _Handle:
        if file in self._closed:
            raise Violation("A file is used after it was closed. Its number may be another file's by now.")
        if file not in self._handles:
            raise _error(errno.EBADF)
        return self._handles[file]

    def _file(self, file: int) -> File:
        entry = self._handle(file).entry
        if not isinstance(entry, File):
            raise _error(errno.EISDIR)
        return entry

    def _opened(self, path: Path, flags: int) -> int:
        try:
            entry = self.disk.entry(path)
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise _error(errno.EEXIST, path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            entry = File(self.disk.new_number(), self.disk.now_ns)
            self.disk.folder(path.parent).change({path.name: entry}, self.disk.now_ns)
        if flags & os.O_TRUNC and isinstance(entry, File) and entry.size:
            self._resize(entry, 0)
        number = self.disk.new_number()
        self._handles[number] = _Handle(entry, flags, entry.failures)
        return number

    def _write(self, name: str, file: int, data: bytes, place: int | None) -> int:
        def work(size: int = len(data)) -> int:
            handle, found = self._handle(file), self._file(file)
            if not handle.flags & (os.O_WRONLY | os.O_RDWR):
                raise _error(errno.EBADF)
            if handle.flags & os.O_APPEND:
                at = found.size
            else:
                at = handle.place if place is None else place
            missing = max(0, at + size - found.size)
            got = self.disk.take(missing)
            if got < missing:
                size = found.size + got - at
                if size <= 0:
                    self.errors += 1
                    self.disk.take(-got)
                    raise _error(errno.ENOSPC)
            if size:
                found.change(Write(at, data[:size]), self.disk.now_ns)
            if place is None:
                handle.place = at + size
            return size

        def torn(luck: Random) -> int:
            return work(luck.randrange(1, len(data) + 1) if data else 0)

        return self._call(name, work, torn=torn)

    def _resize(self, file: File, size: int) -> None:
        if size != file.size:
            self.disk.take(size - file.size)
            file.change(Resize(size), self.disk.now_ns)

    def _fail_sync(self, file: int, luck: Random) -> None:
        handle = self._handle(file)
        handle.entry.fail_sync(luck)
        handle.failures = handle.entry.failures
        self.failed_syncs.add(handle.entry.number)


def _state(entry: File | Folder) -> State:
    return State(entry.number, entry.size, entry.links, entry.changed_ns)


def _error(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), *(() if path is None else (str(path),)))
