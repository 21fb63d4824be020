"""The segment files of one partition: their names, their sparse index, and walking through their blocks.

``<offset of the first message>.log`` holds blocks, ``.idx`` beside it one entry for about every 64 KiB: the
offset of a block, its place in the file, the highest timestamp before it, and a checksum of the three. An
index is a hint. It may lag behind, or be damaged or missing: then more headers are walked through.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from dragoman.adapters.embedded.block import HEADER, MAGIC, Block, block_at
from dragoman.core.disk import OPERATING_SYSTEM, Disk, read_file

ENTRY = struct.Struct("<qqqI")
_CHECKED = struct.Struct("<qqq")
_NAME = re.compile(r"[0-9]{20}\.log")
INDEX_EVERY = 1 << 16
CHUNK = 1 << 18
MOST_FALSE = 100
"""After so many places that only look like a block the search for a sound one is given up."""
NO_LIMIT = 1 << 62
NO_TIME = -(1 << 63)


def log_path(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.log"


def index_path(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.idx"


def segment_bases(folder: Path, disk: Disk = OPERATING_SYSTEM) -> list[int]:
    """The first offsets of the segments there are, rising. Files with other names are not looked at."""
    try:
        bases = (int(name[:-4]) for name in disk.listdir(folder) if _NAME.fullmatch(name))
        return sorted(base for base in bases if base < NO_LIMIT)
    except FileNotFoundError:  # the channel was deleted
        return []


def pack_entry(offset: int, place: int, newest: int) -> bytes:
    return ENTRY.pack(offset, place, newest, crc32(_CHECKED.pack(offset, place, newest)))


class SegmentFile:
    """One segment, opened for reading. It stays readable after retention has removed its name."""

    def __init__(self, folder: Path, base: int, disk: Disk = OPERATING_SYSTEM) -> None:
        self.base = base
        self._disk = disk
        self._index = index_path(folder, base)
        self.file = disk.open(log_path(folder, base), os.O_RDONLY | os.O_CLOEXEC, 0)

    @property
    def size(self) -> int:
        return self._disk.fstat(self.file).st_size

    @property
    def written(self) -> int:
        """When it was last written, in milliseconds since the epoch."""
        return self._disk.fstat(self.file).st_mtime_ns // 1_000_000

    def entries(self) -> list[tuple[int, int, int]]:
        """Offset, place and highest earlier timestamp of some blocks, the first one always among them.

        What stands in the index behind a damaged entry is not used.
        """
        try:
            data = read_file(self._disk, self._index)
        except FileNotFoundError:
            data = b""
        size = self.size
        entries = [(self.base, 0, NO_TIME)]
        for *entry, checksum in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]):
            offset, place, newest = entry
            if crc32(_CHECKED.pack(*entry)) != checksum or not 0 <= place < size:
                break
            entries.append((offset, place, newest))
        return entries

    @property
    def first(self) -> int | None:
        """The offset of the first block, if its header is sound."""
        header = self._header(0)
        return None if header is None else header.base

    def end_at(self, place: int) -> int:
        """The offset behind the block at this place, if its header is sound; 0 otherwise."""
        header = self._header(place)
        return 0 if header is None else header.end

    def entry_of(self, offset: int) -> tuple[int, int]:
        """The place of the block with this offset, or of one not far before it, and that one's offset."""
        entries = self.entries()
        at = bisect_right(entries, offset, key=lambda entry: entry[0]) - 1
        return self._sound(entries, max(at, 0))

    def entry_of_time(self, timestamp: int) -> tuple[int, int]:
        """A place before which every timestamp is lower, and the offset of the block there."""
        entries = self.entries()
        at = bisect_right(entries, timestamp - 1, key=lambda entry: entry[2]) - 1
        return self._sound(entries, max(at, 0))

    def _sound(self, entries: list[tuple[int, int, int]], at: int) -> tuple[int, int]:
        """Place and offset of this entry; of the first block if it does not point at the block it names."""
        offset, place, _ = entries[at]
        header = self._header(place)
        return (place, offset) if header is not None and header.base == offset else (0, self.base)

    def headers(self, place: int) -> Iterator[tuple[int, Block]]:
        """Places and headers of the blocks from here on; the bodies are not read whole."""
        while True:
            data = memoryview(self._disk.pread(self.file, CHUNK, place))
            at = 0
            while (block := block_at(data, at)) is not None:
                yield place + at, block
                at += block.size
            if at == 0:
                return
            place += at

    def blocks(self, place: int) -> Iterator[tuple[int, Block]]:
        """Places and blocks from here on, as far as their headers are sound and all their bytes are there."""
        size = CHUNK
        while True:
            data = memoryview(self._disk.pread(self.file, size, place))
            at = 0
            while (block := block_at(data, at)) is not None and len(block.body) == block.length:
                yield place + at, block
                at += block.size
            if at:
                size = CHUNK
            elif block is not None and len(data) == size < block.size:
                size = block.size
            else:
                return
            place += at

    def next_sound(self, place: int, at_least: int, limit: Callable[[], int]) -> tuple[int, Block] | None:
        """The first sound block behind the damage at this place, where it stands, and the block.

        Its offset is ``at_least`` this one. ``limit`` gives the offset at which the next segment begins, or
        the log ends by now. A payload may hold bytes that look like blocks, for example a copy of a segment.
        So nothing inside a block with a sound header is looked at, and the blocks that follow each other from
        a place on must fit before what comes behind them. The search ends after a bounded number of steps.

        At the end of the file may stand blocks that are not confirmed yet: a writer is at work, or has died.
        Then the log ends where one of the blocks ends.
        """
        header = self._header(place)
        place += 1 if header is None else header.size
        passed, false, until = place, 0, limit()
        for found, block in self._alike(place, at_least):
            if found < passed:
                continue
            if block.whole:
                passed, ends = self._chain(found)
                behind = next((other.base for _, other in self._alike(passed, at_least)), None)
                fits = ends[-1] <= until or (until in ends and behind is None)
                if fits and (behind is None or ends[-1] <= behind):
                    return found, block
            false += 1
            if false >= MOST_FALSE:
                break
        return None

    def _header(self, place: int) -> Block | None:
        return block_at(memoryview(self._disk.pread(self.file, HEADER.size, place)), 0)

    def _alike(self, place: int, at_least: int) -> Iterator[tuple[int, Block]]:
        """Blocks from here on with a sound header and all of their bytes, wherever they stand."""
        size = self.size
        while place < size:
            data = self._disk.pread(self.file, CHUNK, place)
            at = data.find(MAGIC)
            while at >= 0:
                header = self._header(place + at)
                if header is not None and header.base >= at_least and place + at + header.size <= size:
                    yield (
                        place + at,
                        Block(memoryview(self._disk.pread(self.file, header.size, place + at)), 0),
                    )
                at = data.find(MAGIC, at + 1)
            if len(data) < CHUNK:
                return
            place += CHUNK - len(MAGIC) + 1

    def _chain(self, place: int) -> tuple[int, list[int]]:
        """Where the blocks end that follow each other from here on, and the offsets behind each of them."""
        ends: list[int] = []
        for found, block in self.blocks(place):
            if ends and block.base != ends[-1]:
                break
            place = found + block.size
            ends.append(block.end)
        return place, ends

    def close(self) -> None:
        self._disk.close(self.file)
