"""Appending to a partition, by one process at a time.

The append lock is a file lock, which the system gives up for a process that dies. So whoever holds it knows
that bytes behind the last whole block are the torn write of a dead process, and cuts them off. This is done
when a partition is opened, and again whenever the file is longer than this process left it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.adapters.embedded.block import SEAL, Draft
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.segment import (
    ENTRY,
    INDEX_EVERY,
    NO_TIME,
    SegmentFile,
    index_path,
    log_path,
    segment_bases,
)
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound


class Contended(Exception):
    """Another process, or thread, is appending right now."""


class Appender:
    """The writing end of one partition. Safe for several threads."""

    def __init__(
        self, folder: Path, bounds: Bounds, partition: int, *, segment_bytes: int, fsync: str
    ) -> None:
        self._fsync = fsync
        self._folder = folder
        self._bounds = bounds
        self._partition = partition
        self._segment_bytes = segment_bytes
        self._mutex = threading.Lock()
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._tail: _Tail | None = None

    def append(self, drafts: list[Draft], *, wait: bool) -> list[int]:
        """Write the blocks; the offset of each one's first message. ``Contended`` unless it may ``wait``."""
        with self._locked(wait):
            tail = self._caught_up()
            offsets = []
            for draft in drafts:
                if tail.size >= self._segment_bytes:
                    tail = self._roll(tail, tail.next)
                offsets.append(tail.next)
                tail.write(draft)
            start, _ = self._bounds.one(self._partition)
            if self._fsync == "always":
                tail.sync()
            self._bounds.write(self._partition, start, tail.next)
            return offsets

    def recover(self) -> None:
        """Cut off a torn tail, and bring the bounds into line with the log."""
        with self._locked(True):
            self._caught_up()

    def sync(self) -> None:
        with self._mutex:
            if self._tail is not None:
                self._tail.sync()

    def drop_before(self, timestamp: int) -> None:
        """Remove the oldest segments whose messages are all older. The last segment stays."""
        with self._locked(True):
            tail = self._caught_up()
            if tail.size and tail.newest < timestamp:
                tail = self._roll(tail, tail.next)
            bases = segment_bases(self._folder)
            old = 0
            while old < len(bases) - 1 and self._newest(bases[old]) < timestamp:
                old += 1
            if not old:
                return
            # Readers learn the new start first, so that they do not look for what is about to go.
            self._bounds.write(self._partition, bases[old], tail.next)
            for base in bases[:old]:
                log_path(self._folder, base).unlink(missing_ok=True)
                index_path(self._folder, base).unlink(missing_ok=True)

    def remove(self) -> None:
        """The channel is deleted. Who holds or awaits the lock finds the lock file gone."""
        with self._locked(True):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)

    def _newest(self, base: int) -> int:
        segment = SegmentFile(self._folder, base)
        try:
            _, place, newest = segment.entries()[-1]
            return max([newest, *(block.newest for _, block in segment.headers(place) if block.count)])
        finally:
            segment.close()

    @contextmanager
    def _locked(self, wait: bool) -> Iterator[None]:
        if not self._mutex.acquire(blocking=wait):
            raise Contended
        try:
            if self._lock < 0:
                raise BrokerUnavailable("The log is closed.", next="Connect again.", folder=self._folder)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Contended from None
            try:
                if not os.fstat(self._lock).st_nlink:
                    raise ChannelNotFound("The channel was deleted.", folder=self._folder)
                yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def _caught_up(self) -> _Tail:
        start, end = self._bounds.one(self._partition)
        tail = self._tail
        if tail is not None and tail.next == end and tail.unchanged:
            return tail
        if tail is None or not tail.follow():
            bases = segment_bases(self._folder)
            start = max(start, bases[0]) if bases else start
            tail = self._open(bases[-1] if bases else end)
            tail.recover()
        while tail.sealed:
            later = [base for base in segment_bases(self._folder) if base > tail.base]
            tail = self._open(later[0] if later else max(tail.next, end))
            tail.recover()
        if tail.next < end:
            # A power failure took messages that were accepted. Their offsets are not used twice.
            tail = self._roll(tail, end)
        if tail.next != end:
            self._bounds.write(self._partition, start, tail.next)
        return tail

    def _open(self, base: int) -> _Tail:
        if self._tail is not None:
            self._tail.close()
        self._tail = _Tail(self._folder, base, fsync=self._fsync != "never")
        return self._tail

    def _roll(self, tail: _Tail, base: int) -> _Tail:
        """Begin the next segment. The seal tells other processes, whose tail this was, to look for it."""
        tail.write(SEAL)
        tail.sync()
        return self._open(base)

    def close(self) -> None:
        """A thread that comes later finds it closed, and does not use the numbers of files of others."""
        with self._mutex:
            if self._tail is not None:
                self._tail.close()
                self._tail = None
            lock, self._lock = self._lock, -1
            os.close(lock)


class _Tail:
    """The segment that is being written, as far as this process knows it."""

    def __init__(self, folder: Path, base: int, *, fsync: bool) -> None:
        self.base = base
        self.next = base
        self.size = 0
        self.sealed = False
        self.newest = NO_TIME
        self._indexed = 0
        self._fsync = fsync
        self._dirty = self._named = False
        self._folder = folder
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._log = os.open(log_path(folder, base), flags, 0o644)
        self._index = os.open(index_path(folder, base), flags | os.O_APPEND, 0o644)

    @property
    def unchanged(self) -> bool:
        return not self.sealed and os.fstat(self._log).st_size == self.size

    def recover(self) -> None:
        """Find the end of the last whole block, from the last index entry on, and cut off what follows."""
        segment = SegmentFile(self._folder, self.base)
        try:
            entries = segment.entries()
            place = segment.place_of(1 << 62)
            kept = [entry for entry in entries[1:] if entry[1] <= place]
            if place:
                self.next, self.size, self.newest = kept[-1]
                self._indexed = place
            os.ftruncate(self._index, len(kept) * ENTRY.size)
            self._walk(segment, index=True)
        finally:
            segment.close()

    def follow(self) -> bool:
        """Take in what other processes appended; ``False`` if this segment is gone."""
        if not os.fstat(self._log).st_nlink or self.sealed:
            return False
        segment = SegmentFile(self._folder, self.base)
        try:
            self._walk(segment, index=False)
        finally:
            segment.close()
        return True

    def _walk(self, segment: SegmentFile, *, index: bool) -> None:
        for place, block in segment.blocks(self.size):
            if not block.whole:
                break
            self.size = place + block.size
            if not block.count:
                self.sealed = True
                break
            self._note(block.base, place, block.count, block.newest, index=index)
        if segment.size > self.size:
            os.ftruncate(self._log, self.size)

    def write(self, draft: Draft) -> None:
        data = draft.at(self.next)
        try:
            written = os.pwrite(self._log, data, self.size)
            while written < len(data):
                written += os.pwrite(self._log, data[written:], self.size + written)
        except OSError as error:
            os.ftruncate(self._log, self.size)
            raise BrokerUnavailable(
                f"The log cannot be written: {error.strerror}.",
                next="Make room on the disk, or choose another folder.",
                folder=self._folder,
            ) from error
        place, self.size = self.size, self.size + len(data)
        self._dirty = True
        if draft.count:
            self._note(self.next, place, draft.count, draft.newest, index=True)
        else:
            self.sealed = True

    def _note(self, base: int, place: int, count: int, newest: int, *, index: bool) -> None:
        if place - self._indexed >= INDEX_EVERY:
            self._indexed = place
            if index:
                with contextlib.suppress(OSError):  # a hint, which may be missing
                    os.write(self._index, ENTRY.pack(base, place, self.newest))
        self.next = base + count
        self.newest = max(self.newest, newest)

    def sync(self) -> None:
        if self._dirty and self._fsync:
            self._dirty = False
            os.fsync(self._log)
            if not self._named:
                self._named = True
                _sync_names(self._folder)

    def close(self) -> None:
        self.sync()
        os.close(self._log)
        os.close(self._index)


def _sync_names(folder: Path) -> None:
    """A new file is safe once its name is."""
    with contextlib.suppress(FileNotFoundError):  # the channel was deleted
        names = os.open(folder, os.O_RDONLY)
        os.fsync(names)
        os.close(names)
