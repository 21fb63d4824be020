"""Reading a partition by offset, without a lock."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from dragoman.adapters.embedded.block import Block, numbers
from dragoman.adapters.embedded.segment import SegmentFile, segment_bases
from dragoman.core.errors import BrokerError
from dragoman.core.message import Message


class PartitionReader:
    """Reads blocks from any offset on; going on where the last read ended costs no search.

    The caller knows from ``Bounds`` up to where there is something to read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment: SegmentFile | None = None
        self._next = -1
        self._place = 0

    def read(self, start: int, end: int, count: int, size: int = 1 << 62) -> list[Block]:
        """Blocks with messages from ``start`` on and before ``end``, about ``count``, or ``size`` bytes.

        The first and the last may reach beyond what was asked for. What stands before a damaged block is read
        before the damage is told.
        """
        blocks: list[Block] = []
        self._seek(start)
        while self._segment is not None and start < end:
            for at, block in self._segment.blocks(self._place):
                if block.base >= end:
                    return blocks
                self._next, self._place = max(start, block.end), at + block.size
                if block.end <= start:
                    continue
                if blocks and not block.whole:
                    return blocks
                blocks.append(self._checked(block))
                count -= block.end - max(start, block.base)
                size -= block.size
                start = block.end
                if count <= 0 or size <= 0 or start >= end:
                    return blocks
            if not self._go_on():
                break
        return blocks

    def offset_at(self, timestamp: int) -> int | None:
        """The first offset with this timestamp or a later one."""
        for base in segment_bases(self._folder):
            if not self._open(base):
                continue
            segment = self._segment
            assert segment is not None
            for place, header in segment.headers(segment.place_of_time(timestamp)):
                if header.count and header.newest >= timestamp:
                    _, block = next(segment.blocks(place))
                    times = numbers("q", block.columns().times)
                    return block.base + next(at for at, time in enumerate(times) if time >= timestamp)
        return None

    def _seek(self, start: int) -> None:
        if self._segment is not None and start == self._next:
            return
        while bases := segment_bases(self._folder):
            if self._open(bases[max(bisect_right(bases, start) - 1, 0)]):
                assert self._segment is not None
                self._place = self._segment.place_of(start)
                return
        self.close()

    def _open(self, base: int) -> bool:
        self.close()
        try:
            self._segment = SegmentFile(self._folder, base)
        except FileNotFoundError:  # retention was faster
            return False
        self._next, self._place = -1, 0
        return True

    def _go_on(self) -> bool:
        """At the end of a segment: is there more, in the same one by now or in the next?"""
        segment = self._segment
        assert segment is not None
        following = [base for base in segment_bases(self._folder) if base > segment.base]
        if not following:
            return False
        # Its last blocks may have come after we looked, and before the next segment was begun.
        if any(block.count for _, block in segment.headers(self._place)):
            return True
        going_on_at = self._next
        opened = any(self._open(base) for base in following)
        self._next = going_on_at
        return opened

    def _checked(self, block: Block) -> Block:
        if block.whole:
            return block
        raise BrokerError(
            "A block of the log is damaged: its checksum is wrong.",
            code="broker.damaged",
            next="Restore the file from a copy, or publish the messages of these offsets again.",
            folder=self._folder,
            offset=block.base,
            count=block.count,
        )

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


class MessageReader:
    """Messages one after the other. What was decoded and not asked for yet is kept for the next call."""

    def __init__(self, folder: Path, channel: str, partition: int) -> None:
        self._blocks = PartitionReader(folder)
        self._channel = channel
        self._partition = partition
        self._ahead: list[Message] = []
        self._at = 0
        self._next = -1

    def read(self, start: int, end: int, limit: int) -> list[Message]:
        """Up to ``limit`` messages from ``start`` on, before ``end``."""
        if start != self._next:
            self._ahead, self._at = [], 0
            self._next = start
        found: list[Message] = []
        while len(found) < limit and self._next < end:
            if self._at >= len(self._ahead):
                self._decode(limit - len(found), end)
                if not self._ahead:
                    break
            part = self._ahead[self._at : self._at + limit - len(found)]
            self._at += len(part)
            found = found + part if found else part
            self._next = (part[-1].offset or 0) + 1
        return found

    def _decode(self, limit: int, end: int) -> None:
        self._ahead, self._at = [], 0
        for block in self._blocks.read(self._next, end, limit):
            messages = block.messages(self._channel, self._partition)
            self._ahead += messages[max(0, self._next - block.base) :]

    def close(self) -> None:
        self._blocks.close()
