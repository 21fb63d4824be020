"""Reading a partition by offset, without a lock."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import NoReturn

from dragoman.adapters.embedded.block import Block, numbers
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.errors import disk_error, log_damage
from dragoman.adapters.embedded.segment import SegmentFile, log_path, segment_bases
from dragoman.core.disk import OPERATING_SYSTEM, Disk, exists
from dragoman.core.errors import DamagedLog
from dragoman.core.message import Message


class PartitionReader:
    """Reads blocks from any offset on; going on where the last read ended costs no search.

    The caller knows from ``Bounds`` up to where there is something to read. The blocks of a partition follow
    each other without a gap. So what is missing or damaged before that end is a damaged range: the blocks
    before it are read, then ``DamagedLog`` is raised until somebody reads from behind it.
    """

    def __init__(
        self, folder: Path, bounds: Bounds | None = None, partition: int = 0, disk: Disk = OPERATING_SYSTEM
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._bounds = bounds
        self._partition = partition
        self._segment: SegmentFile | None = None
        self._next = -1
        self._place = 0
        self._expected = 0
        """The offset that the block at ``_place`` has to have."""
        self._damage: DamagedLog | None = None
        self._damaged_state: object = None

    def read(self, start: int, end: int, count: int, size: int = 1 << 62) -> list[Block]:
        """Blocks with messages from ``start`` on and before ``end``, about ``count``, or ``size`` bytes.

        The first and the last may reach beyond what was asked for. What stands before a damaged block is read
        before the damage is told.
        """
        damage = self._damage
        try:
            if damage is not None and damage.first <= start < damage.until and self._is_as_it_was():
                raise DamagedLog(start, damage.until, folder=self._folder)
            return self._read(start, end, count, size)
        except OSError as error:
            self.close()
            raise disk_error(error, self._folder) from error

    def _read(self, start: int, end: int, count: int, size: int) -> list[Block]:
        blocks: list[Block] = []
        self._seek(start)
        if self._segment is None and not self._deleted and (lost := self._kept(start, end)) is not None:
            # Retention leaves the last segment, so somebody else has removed it.
            self._raise(*lost, start)
        while self._segment is not None and start < end:
            for at, block in self._segment.blocks(self._place):
                if block.base != self._expected:
                    break
                if block.base >= end:
                    return blocks
                reached = block.end
                if reached > start and block.count:
                    if not block.whole:
                        if not blocks:
                            self._raise(block.base, reached, start)
                        return blocks
                    blocks.append(block)
                    if not block.is_gap:
                        count -= reached - max(start, block.base)
                        size -= block.size
                    start = reached
                self._next, self._place, self._expected = start, at + block.size, reached
                if count <= 0 or size <= 0 or start >= end:
                    return blocks
            if self._expected >= end:
                return blocks
            lost, going_on = self._go_on(end)
            if lost is not None and lost[1] > start:
                if not blocks:
                    self._raise(*lost, start)
                self._next = -1
                return blocks
            if not going_on:
                break
        return blocks

    def offset_at(self, timestamp: int) -> int | None:
        """The first offset with this timestamp or a later one, or where a damaged range begins before it."""
        try:
            return self._offset_at(timestamp)
        except OSError as error:
            raise disk_error(error, self._folder) from error

    def _offset_at(self, timestamp: int) -> int | None:
        expected, is_cut = -1, False
        for base in segment_bases(self._folder, self._disk):
            if 0 <= expected < base and (lost := self._kept(expected, base)) is not None:
                return lost[0]
            if not self._open(base):
                continue
            segment = self._segment
            assert segment is not None
            behind, expected = segment.entry_of_time(timestamp)
            for place, header in segment.headers(behind):
                if header.base != expected:
                    return expected
                if header.count and header.newest >= timestamp:
                    return _first_since(segment, place, timestamp)
                behind, expected = place + header.size, header.end
            # If the next segment begins right here, nothing but the seal is damaged.
            is_cut = behind < segment.size
        return expected if is_cut else None

    def _seek(self, start: int) -> None:
        if self._segment is not None and start == self._next:
            return
        while bases := segment_bases(self._folder, self._disk):
            if self._open(bases[max(bisect_right(bases, start) - 1, 0)]):
                assert self._segment is not None
                self._place, self._expected = self._segment.entry_of(start)
                if self._expected > start:
                    lost = self._kept(start, self._expected)
                    if lost is not None:
                        self._raise(*lost, start)
                return
        self.close()

    def _open(self, base: int) -> bool:
        self.close()
        try:
            self._segment = SegmentFile(self._folder, base, self._disk)
        except FileNotFoundError:  # retention was faster
            return False
        self._next, self._place, self._expected = -1, 0, base
        return True

    def _go_on(self, end: int) -> tuple[tuple[int, int] | None, bool]:
        """Where the blocks of a segment end: the range that is lost here, and whether there is more to read.

        There is more in the same segment by now, or behind damage, or in the next one.
        """
        segment = self._segment
        assert segment is not None
        following = [base for base in segment_bases(self._folder, self._disk) if base > segment.base]
        # Its last blocks may have come after we looked, and before the next segment was begun.
        found = next(segment.blocks(self._place), None)
        if found is not None and found[1].count and found[1].base == self._expected:
            return None, True
        expected = self._expected
        if found is not None and found[1].base > expected:
            self._place, self._expected = found[0], found[1].base
            return self._kept(expected, self._expected), True
        if not (found is not None and found[1].base == expected) and self._place < segment.size:
            limit = following[0] if following else None
            sound = segment.next_sound(
                self._place, expected, lambda: self._end(end) if limit is None else limit
            )
            if sound is not None:
                self._place, self._expected = sound[0], sound[1].base
                return self._kept(expected, self._expected), True
        going_on_at = self._next
        if any(self._open(base) for base in following):
            self._next = going_on_at
            return self._kept(expected, self._expected), True
        # Retention, or the end of the channel, was faster if none of those that followed is there.
        return (None if following or self._deleted else self._kept(expected, end)), False

    @property
    def _deleted(self) -> bool:
        """The channel is gone, and its files with it: the bounds first.

        The lock file says nothing where there are bounds. Its name is not synced, so a power failure may
        take it away until a writer makes it again.
        """
        if self._bounds is not None:
            return not self._bounds.partitions
        return not exists(self._disk, self._folder / "lock")

    def _end(self, end: int) -> int:
        return end if self._bounds is None else max(end, self._bounds.one(self._partition)[1])

    def _kept(self, first: int, until: int) -> tuple[int, int] | None:
        """What of this gap retention has not removed: that is lost."""
        if self._bounds is not None:
            first = max(first, self._bounds.one(self._partition)[0])
        elif until == next(iter(segment_bases(self._folder, self._disk)), -1):
            return None
        return (first, until) if first < until else None

    def _raise(self, first: int, until: int, start: int) -> NoReturn:
        log_damage(self._folder, first, until)
        self._damage = DamagedLog(max(first, start), until, folder=self._folder)
        self._damaged_state = self._state()
        # Going on behind the damage looks for the place again.
        self._next = -1
        raise self._damage

    def _is_as_it_was(self) -> bool:
        """The search behind damage may be long, so it is repeated only if a file has changed."""
        return self._damaged_state is not None and self._damaged_state == self._state()

    def _state(self) -> object:
        if self._segment is None:
            return None
        try:
            paths = (self._folder, log_path(self._folder, self._segment.base))
            found = [self._disk.stat(path) for path in paths]
        except FileNotFoundError:
            return None
        return [(each.st_ino, each.st_mtime_ns, each.st_size) for each in found]

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def _first_since(segment: SegmentFile, place: int, timestamp: int) -> int:
    found = next(segment.blocks(place), None)
    if found is None or not found[1].whole:
        header = next(segment.headers(place))[1]
        return header.base
    block = found[1]
    times = numbers("q", block.columns().times)
    return block.base + next((at for at, time in enumerate(times) if time >= timestamp), 0)


class MessageReader:
    """Messages one after the other. What was decoded and not asked for yet is kept for the next call."""

    def __init__(
        self,
        folder: Path,
        channel: str,
        partition: int,
        bounds: Bounds | None = None,
        disk: Disk = OPERATING_SYSTEM,
    ) -> None:
        self._blocks = PartitionReader(folder, bounds, partition, disk)
        self._channel = channel
        self._partition = partition
        self._ahead: list[Message] = []
        self._at = 0
        self._next = -1

    def read(self, start: int, end: int, limit: int) -> list[Message]:
        """Up to ``limit`` messages from ``start`` on, before ``end``. Raises ``DamagedLog`` if there is
        damage, and nothing before it.
        """
        if start != self._next:
            self._ahead, self._at = [], 0
            self._next = start
        found: list[Message] = []
        while len(found) < limit and self._next < end:
            if self._at >= len(self._ahead):
                try:
                    self._decode(limit - len(found), end)
                except DamagedLog:
                    if not found:
                        raise
                    break
                if not self._ahead:
                    break
            part = self._ahead[self._at : self._at + limit - len(found)]
            self._at += len(part)
            found = found + part if found else part
            self._next = (part[-1].offset or 0) + 1
        return found

    def _decode(self, limit: int, end: int) -> None:
        self._ahead, self._at = [], 0
        # What follows a gap may be damaged: it is reported, as it is without the gap.
        while not self._ahead and self._next < end:
            blocks = self._blocks.read(self._next, end, limit)
            if not blocks:
                return
            for block in blocks:
                messages = block.messages(self._channel, self._partition)
                self._ahead += messages[max(0, self._next - block.base) :]
            if not self._ahead:
                self._next = blocks[-1].end

    def close(self) -> None:
        self._blocks.close()
