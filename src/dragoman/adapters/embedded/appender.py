"""Appending to a partition, by one process at a time.

The append lock is a file lock, which the system gives up for a process that dies. So the holder of the lock
sees no write that is under way. Bytes behind the last whole block are the torn write of a dead process if the
bounds show that nothing of them was ever confirmed, and no sound block follows. Only then they are cut off.
Everything else that cannot be read is damage: it is logged and kept, and the log goes on behind it. This is
done when a partition is opened, and again whenever the file is longer than this process left it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.adapters.embedded.block import MAX_GAP, SEAL, Draft, gap
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.errors import DiskFull, disk_error, log_damage, log_gap, misnamed, sync_failed
from dragoman.adapters.embedded.offsets import Offsets
from dragoman.adapters.embedded.reserve import Reserve
from dragoman.adapters.embedded.segment import (
    ENTRY,
    INDEX_EVERY,
    NO_LIMIT,
    NO_TIME,
    SegmentFile,
    index_path,
    log_path,
    pack_entry,
    segment_bases,
)
from dragoman.core.disk import OPERATING_SYSTEM, Disk, remove
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound


class Contended(Exception):
    """Another process, or thread, is appending right now."""


class Appender:
    """The writing end of one partition. Safe for several threads."""

    def __init__(
        self,
        folder: Path,
        bounds: Bounds,
        partition: int,
        *,
        segment_bytes: int,
        fsync: str,
        reserve: Reserve | None = None,
        known: int = 0,
        disk: Disk = OPERATING_SYSTEM,
    ) -> None:
        """``known``: the messages before this offset were in the log, as groups remember."""
        self._disk = disk
        self._known = known
        self._fsync = fsync
        self._folder = folder
        self._bounds = bounds
        self._partition = partition
        self._segment_bytes = segment_bytes
        self._reserve = reserve
        self._mutex = threading.Lock()
        self._lock = disk.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._offsets = Offsets(folder, disk)
        except OSError:
            disk.close(self._lock)
            raise
        self._tail: _Tail | None = None
        self._begun: list[int] = []
        """Segments that the append under way has begun."""
        self._broken = False
        """A sync failed, so what is on the disk is not known: nothing is written until it is opened again."""

    def append(self, drafts: list[Draft], *, wait: bool) -> list[int]:
        """Write the blocks; the offset of each one's first message. ``Contended`` unless it may ``wait``.

        All of them, or none: after an error the log is as it was before.
        """
        with self._locked(wait):
            if self._reserve is not None and not self._reserve.held:
                self._reserve.take()
            start, tail = self._caught_up()
            first = self._reserved(tail.next, sum(draft.count for draft in drafts), wait=wait)
            self._begun.clear()
            base, size = tail.base, tail.size
            offsets = []
            try:
                self._leave_out(tail, first)
                for draft in drafts:
                    if tail.size >= self._segment_bytes:
                        tail = self._roll(tail, tail.next)
                    offsets.append(tail.next)
                    tail.write(draft)
                if self._fsync == "always":
                    self._sync(tail)
                self._bounds.write(self._partition, start, tail.next)
            except BaseException:
                self._undo(base, size)
                raise
            return offsets

    def _reserved(self, end: int, count: int, *, wait: bool) -> int:
        """The offset of the next message. It and those of this append are reserved on the disk."""
        first = max(end, self._offsets.first())
        # With "always" no offset is given out before its message is on the disk.
        if self._fsync != "always" and not self._offsets.hold(first + count):
            if not wait:
                raise Contended
            self._offsets.reserve(first, first + count)
        return first

    def _leave_out(self, tail: _Tail, first: int) -> None:
        if tail.next < first:
            log_gap(self._folder, tail.next, first)
        while tail.next < first:
            tail.write(gap(min(first - tail.next, MAX_GAP)))

    def settle(self) -> None:
        """Bring all messages to the disk. No offsets are left out if the machine restarts now."""
        if self._fsync == "never" or not self._offsets.used:
            return
        with self._locked(True):
            _, tail = self._caught_up()
            tail.dirty = True  # by another process, which may have died before it synced
            self._sync(tail)
            self._offsets.give_back(tail.next)

    def _undo(self, base: int, size: int) -> None:
        """What was not confirmed must not be delivered: cut the log back to where it was."""
        begun, self._begun = self._begun, []
        tail = self._tail
        try:
            if tail is not None and tail.base == base:
                # It stays open: if a sync of another process fails, only files that were open are told.
                tail.stale = True
            elif tail is not None:
                self._tail = None
                tail.close()
            # The last one first: if it fails half way, what is left has no gap.
            for later in reversed(begun):
                remove(self._disk, log_path(self._folder, later))
                remove(self._disk, index_path(self._folder, later))
            self._disk.truncate(log_path(self._folder, base), size)
        except OSError:
            self._broken = True

    def recover(self) -> None:
        """Cut off a torn tail, and bring the bounds into line with the log."""
        with self._locked(True):
            self._caught_up()

    def rewrite_bounds(self) -> None:
        """Write down once more where the log begins and ends."""
        with self._locked(True):
            start, tail = self._caught_up()
            self._bounds.write(self._partition, start, tail.next)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Meanwhile no process appends, and the bounds are in line with the log."""
        with self._locked(True):
            self._caught_up()
            yield

    def sync(self) -> None:
        with self._mutex:
            if self._tail is not None and not self._broken:
                try:
                    self._sync(self._tail)
                except OSError as error:
                    raise self._told(error) from error

    def _sync(self, tail: _Tail) -> None:
        try:
            tail.sync()
        except OSError:
            if tail.doubtful:
                self._broken = True
                tail.distrust()
                with contextlib.suppress(OSError):
                    self._offsets.distrust()
            raise

    def drop_before(self, timestamp: int) -> None:
        """Remove the oldest segments whose messages are all older. The last segment stays."""
        with self._locked(True):
            _, tail = self._caught_up()
            if tail.size and tail.newest < timestamp:
                # Without room for the next segment the older ones can still go, and make room.
                with contextlib.suppress(OSError):
                    tail = self._roll(tail, tail.next)
            bases = segment_bases(self._folder, self._disk)
            old = 0
            while old < len(bases) - 1 and self._newest(bases[old]) < timestamp:
                old += 1
            if not old:
                return
            # Readers learn the new start first, so that they do not look for what is about to go. It is on
            # the disk first, so that what is gone after a power failure is not taken for damage.
            self._bounds.write(self._partition, bases[old], tail.next)
            if self._fsync != "never":
                self._bounds.sync()
            for base in bases[:old]:
                remove(self._disk, log_path(self._folder, base))
                remove(self._disk, index_path(self._folder, base))

    def remove(self) -> None:
        """The channel is deleted. Who holds or awaits the lock finds the lock file gone."""
        with self._locked(True):
            for name in self._disk.listdir(self._folder):
                remove(self._disk, self._folder / name)

    def _newest(self, base: int) -> int:
        """The highest timestamp; of messages that cannot be read, when the file was last written."""
        segment = SegmentFile(self._folder, base, self._disk)
        try:
            _, behind, newest = segment.entries()[-1]
            for place, block in segment.headers(behind):
                newest = max(newest, block.newest if block.count else NO_TIME)
                behind = place + block.size
            return newest if behind >= segment.size else max(newest, segment.written)
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
                self._disk.flock(self._lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Contended from None
            try:
                if not self._disk.fstat(self._lock).st_nlink:
                    raise ChannelNotFound("The channel was deleted.", folder=self._folder)
                yield
            finally:
                self._disk.flock(self._lock, fcntl.LOCK_UN)
        except OSError as error:
            raise self._told(error) from error
        finally:
            self._mutex.release()

    def _told(self, error: OSError) -> BrokerUnavailable:
        if self._broken:
            return sync_failed(self._folder)
        found = disk_error(error, self._folder)
        if isinstance(found, DiskFull) and self._reserve is not None:
            self._reserve.give_up()
        return found

    def _caught_up(self) -> tuple[int, _Tail]:
        """The log's start, and its tail, which holds all that is there by now."""
        if self._broken:
            raise sync_failed(self._folder)
        record = self._bounds.record(self._partition)
        start, end = record or (0, 0)
        # A power failure may have taken the end of the log and of the bounds, and left what groups remember.
        end = max(end, self._known)
        tail = self._tail
        if tail is not None and tail.next == end and tail.unchanged:
            return start, tail
        confirmed = end
        if record is None:
            # Everything may have been confirmed, also behind the end of what is there.
            confirmed = NO_LIMIT
            self._offsets.distrust()
        if tail is None or not tail.follow(confirmed):
            bases = segment_bases(self._folder, self._disk)
            if record is None and bases:
                start = bases[0]
            tail = self._recovered(bases[-1] if bases else end, confirmed)
        while tail.sealed or tail.torn or tail.next < end:
            later = [base for base in segment_bases(self._folder, self._disk) if base > tail.base]
            if not (tail.sealed or tail.torn or later):
                break
            # A sealed segment without messages was sealed because some were lost behind it.
            behind = max(tail.behind, end, tail.base + 1)
            tail = self._recovered(later[0] if later else behind, confirmed)
        if tail.next < end:
            # Messages that were accepted are gone. Their offsets are not used twice.
            log_damage(self._folder, tail.next, end)
            tail = self._roll(tail, end)
        if record is None or tail.next != end:
            if self._fsync == "always":
                # A process has died before it could sync what it had written. Now it will be delivered.
                self._sync(tail)
            self._bounds.write(self._partition, start, tail.next)
        return start, tail

    def _recovered(self, base: int, confirmed: int) -> _Tail:
        tail = self._tail
        if tail is None or tail.base != base or not tail.stale or tail.is_removed:
            tail = self._open(base)
        tail.stale = True
        tail.recover(confirmed)
        tail.stale = False
        return tail

    def _open(self, base: int) -> _Tail:
        """Go on in another segment. What the last one holds is on the disk before."""
        tail = self._tail
        if tail is not None:
            self._sync(tail)
            self._tail = None
            tail.close()
        self._tail = _Tail(self._folder, base, self._disk, fsync=self._fsync != "never")
        return self._tail

    def _roll(self, tail: _Tail, base: int) -> _Tail:
        """Begin the next segment. The seal tells other processes, whose tail this was, to look for it."""
        tail.write(SEAL)
        self._begun.append(base)
        return self._open(base)

    def close(self) -> None:
        """A thread that comes later finds it closed, and does not use the numbers of files of others."""
        with self._mutex:
            if self._tail is not None:
                self._tail.close()
                self._tail = None
            lock, self._lock = self._lock, -1
            if lock >= 0:
                self._disk.close(lock)
                self._offsets.close()


class _Tail:
    """The segment that is being written, as far as this process knows it."""

    def __init__(self, folder: Path, base: int, disk: Disk, *, fsync: bool) -> None:
        self._disk = disk
        self.base = base
        self.next = base
        self.size = 0
        self.sealed = False
        self.torn = False
        """It ends in bytes that were confirmed and cannot be read. Nothing is written behind them."""
        self.behind = base
        """Where the log goes on if this segment is sealed or torn."""
        self.stale = False
        """What is known of it has to be found out again."""
        self.newest = NO_TIME
        self.dirty = False
        """Something of it may not be on the disk."""
        self.doubtful = False
        """A sync was tried and did not end well."""
        self._indexed = 0
        self._fsync = fsync
        self._named = False
        self._folder = folder
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._log = disk.open(log_path(folder, base), flags, 0o644)
        try:
            self._index = disk.open(index_path(folder, base), flags | os.O_APPEND, 0o644)
        except OSError:
            self._disk.close(self._log)
            raise

    @property
    def unchanged(self) -> bool:
        """Nothing was written by others, nor has somebody removed the file: what is written would be lost."""
        if self.sealed or self.torn or self.stale:
            return False
        state = self._disk.fstat(self._log)
        return state.st_size == self.size and bool(state.st_nlink)

    @property
    def is_removed(self) -> bool:
        return not self._disk.fstat(self._log).st_nlink

    def recover(self, confirmed: int) -> None:
        """Find the end of the last whole block, from the last index entry on; see ``_walk``."""
        self.next, self.size, self.newest, self._indexed = self.base, 0, NO_TIME, 0
        self.behind = self.base
        self.sealed = self.torn = False
        segment = SegmentFile(self._folder, self.base, self._disk)
        try:
            first = segment.first
            if first is not None and first < self.base:
                # Its blocks would be taken for what is left of a torn write, and cut off.
                raise misnamed(log_path(self._folder, self.base), log_path(self._folder, first))
            entries = segment.entries()
            place, _ = segment.entry_of(NO_LIMIT)
            kept = [entry for entry in entries[1:] if entry[1] <= place]
            if place:
                self.next, self.size, self.newest = kept[-1]
                self._indexed = place
            self._disk.ftruncate(self._index, len(kept) * ENTRY.size)
            self._walk(segment, confirmed, index=True)
        finally:
            segment.close()

    def follow(self, confirmed: int) -> bool:
        """Take in what other processes appended; ``False`` if this segment is gone, or was cut off."""
        if self.sealed or self.torn or self.stale:
            return False
        state = self._disk.fstat(self._log)
        if not state.st_nlink or state.st_size < self.size:
            return False
        segment = SegmentFile(self._folder, self.base, self._disk)
        try:
            self._walk(segment, confirmed, index=False)
        finally:
            segment.close()
        return True

    def _walk(self, segment: SegmentFile, confirmed: int, *, index: bool) -> None:
        """Take in all sound blocks. What cannot be read, and begins before ``confirmed``, is kept.

        What others have written, and not confirmed, may not be on the disk yet.
        """
        try:
            self._walk_on(segment, confirmed, index=index)
        finally:
            self.dirty = self.dirty or self.sealed or self.next > confirmed

    def _walk_on(self, segment: SegmentFile, confirmed: int, *, index: bool) -> None:
        while self._sound_blocks(segment, confirmed, index=index):
            found = segment.next_sound(self.size, self.next, _no_limit)
            if found is not None:
                self._step_over(found[0], found[1].base)
            elif self.next >= confirmed:
                self._disk.ftruncate(self._log, self.size)
                self.dirty = True
                return
            else:
                # At least one message is lost in what is torn.
                self.behind = max(self.next + 1, segment.end_at(self.size))
                self.size, self.torn = segment.size, True

    def _sound_blocks(self, segment: SegmentFile, confirmed: int, *, index: bool) -> bool:
        """Take in blocks as far as they follow each other; whether there are bytes behind them."""
        for place, block in segment.blocks(self.size):
            if block.base < self.next:
                break
            if not block.whole:
                if block.base >= confirmed and segment.next_sound(place, block.base, _no_limit) is None:
                    break
                log_damage(self._folder, block.base, block.end)
            if block.base > self.next:
                log_damage(self._folder, self.next, block.base)
            self.size = place + block.size
            if not block.count:
                self.sealed = True
                return False
            self._note(block.base, place, block.count, block.newest, index=index)
        return segment.size > self.size

    def _step_over(self, place: int, base: int) -> None:
        if base > self.next:
            log_damage(self._folder, self.next, base)
        self.size, self.next, self.behind = place, base, base

    def write(self, draft: Draft) -> None:
        data = draft.at(self.next)
        written = self._disk.pwrite(self._log, data, self.size)
        while written < len(data):
            written += self._disk.pwrite(self._log, data[written:], self.size + written)
        place, self.size = self.size, self.size + len(data)
        self.dirty = True
        if draft.count:
            self._note(self.next, place, draft.count, draft.newest, index=True)
        else:
            self.sealed = True

    def _note(self, base: int, place: int, count: int, newest: int, *, index: bool) -> None:
        if place - self._indexed >= INDEX_EVERY:
            self._indexed = place
            if index:
                with contextlib.suppress(OSError):  # a hint, which may be missing
                    self._disk.write(self._index, pack_entry(base, place, self.newest))
        self.next = self.behind = base + count
        self.newest = max(self.newest, newest)

    def sync(self) -> None:
        """Bring it to the disk, with its name the first time. It stays dirty if that fails."""
        if not self.dirty or not self._fsync:
            return
        with contextlib.ExitStack() as opened:
            folder = None
            if not self._named:
                with contextlib.suppress(FileNotFoundError):  # the channel was deleted
                    folder = self._disk.open(self._folder, os.O_RDONLY | os.O_CLOEXEC, 0)
                    opened.callback(self._disk.close, folder)
            self.doubtful = True
            self._disk.fsync(self._log)
            if folder is not None:
                self._disk.fsync(folder)
            self.dirty = self.doubtful = False
            self._named = True

    def distrust(self) -> None:
        """After a failed sync the system may hold pages that the disk does not have: read from the disk."""
        with contextlib.suppress(OSError):
            self._disk.drop_cache(self._log)

    def close(self) -> None:
        self._disk.close(self._log)
        self._disk.close(self._index)


def _no_limit() -> int:
    """A process may have died before it could write down how far the log goes."""
    return NO_LIMIT
