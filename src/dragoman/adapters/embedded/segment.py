"""The segment files of one partition: their names, their sparse index, and walking through their blocks.

``<offset of the first message>.log`` holds blocks, ``.idx`` beside it one entry for about every 64 KiB: the
offset of a block, its place in the file, and the highest timestamp before it. An index is a hint. It may lag
behind, or be missing: then more headers are walked through.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from dragoman.adapters.embedded.block import HEADER, Block, block_at

ENTRY = struct.Struct("<qqq")
INDEX_EVERY = 1 << 16
CHUNK = 1 << 18
NO_TIME = -(1 << 63)


def log_path(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.log"


def index_path(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.idx"


def segment_bases(folder: Path) -> list[int]:
    """The first offsets of the segments there are, rising."""
    try:
        with os.scandir(folder) as found:
            return sorted(int(entry.name[:-4]) for entry in found if entry.name.endswith(".log"))
    except FileNotFoundError:  # the channel was deleted
        return []


class SegmentFile:
    """One segment, opened for reading. It stays readable after retention has removed its name."""

    def __init__(self, folder: Path, base: int) -> None:
        self.base = base
        self._index = index_path(folder, base)
        self.file = os.open(log_path(folder, base), os.O_RDONLY | os.O_CLOEXEC)

    @property
    def size(self) -> int:
        return os.fstat(self.file).st_size

    def entries(self) -> list[tuple[int, int, int]]:
        """Offset, place and highest earlier timestamp of some blocks, the first one always among them."""
        try:
            data = self._index.read_bytes()
        except FileNotFoundError:
            data = b""
        size = self.size
        found = ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
        return [(self.base, 0, NO_TIME), *(entry for entry in found if entry[1] < size)]

    def place_of(self, offset: int) -> int:
        """Where the block with this offset starts, or one not far before it."""
        entries = self.entries()
        at = bisect_right(entries, offset, key=lambda entry: entry[0]) - 1
        return self._sound(entries, max(at, 0))

    def place_of_time(self, timestamp: int) -> int:
        """A place before which every timestamp is lower."""
        entries = self.entries()
        at = bisect_right(entries, timestamp - 1, key=lambda entry: entry[2]) - 1
        return self._sound(entries, max(at, 0))

    def _sound(self, entries: list[tuple[int, int, int]], at: int) -> int:
        """The place of this entry, or 0 if it does not point at the block it names."""
        offset, place, _ = entries[at]
        header = memoryview(os.pread(self.file, HEADER.size, place))
        block = block_at(header, 0)
        return place if block is not None and block.base == offset else 0

    def headers(self, place: int) -> Iterator[tuple[int, Block]]:
        """Places and headers of the blocks from here on; the bodies are not read whole."""
        while True:
            data = memoryview(os.pread(self.file, CHUNK, place))
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
            data = memoryview(os.pread(self.file, size, place))
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

    def close(self) -> None:
        os.close(self.file)
