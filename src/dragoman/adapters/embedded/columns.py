"""Joining blocks into one slice of the log: a few operations per block, none per message in Python.

Bounds of a later block are moved by what came before it. They are 32-bit numbers side by side, so the whole
column is taken as one big integer, and the distance is added to all of its lanes at once.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache

from dragoman.adapters.embedded.block import Block
from dragoman.core.log import Buffer, LogSlice

Bounds = memoryview | None


def slice_of(blocks: Sequence[Block], start: int, end: int) -> LogSlice:
    """The messages from ``start`` to ``end``; the first and the last block may hold others too."""
    columns = _Columns()
    offsets = array("q")
    for block in blocks:
        if block.is_gap:
            continue
        first = max(start - block.base, 0)
        last = min(end - block.base, block.count)
        offsets.extend(range(block.base + first, block.base + last))
        columns.add(block, first, last)
    if sys.byteorder == "big":
        offsets.byteswap()
    reached = min(blocks[-1].end, end) if blocks else max(start, end)
    return LogSlice(
        count=len(offsets),
        offsets=offsets.tobytes(),
        timestamps=_joined(columns.times),
        value_bounds=columns.values.bounds(),
        values=_joined(columns.values.parts),
        value_nulls=_joined(columns.value_nulls),
        key_bounds=columns.keys.bounds(),
        keys=_joined(columns.keys.parts),
        key_nulls=_joined(columns.key_nulls),
        header_bounds=columns.headers.bounds(),
        headers=_joined(columns.headers.parts),
        next_offset=reached,
    )


class _Columns:
    def __init__(self) -> None:
        self.times: list[Buffer] = []
        self.values = _Pieces()
        self.keys = _Pieces()
        self.headers = _Pieces()
        self.value_nulls: list[Buffer] = []
        self.key_nulls: list[Buffer] = []

    def add(self, block: Block, first: int, last: int) -> None:
        found = block.columns()
        count = last - first
        self.times.append(found.times[8 * first : 8 * last])
        self.values.add(found.value_bounds, found.values, first, last)
        self.keys.add(found.key_bounds, found.keys, first, last)
        self.headers.add(found.header_bounds, found.headers, first, last)
        self.value_nulls.append(bytes(count) if found.value_nulls is None else found.value_nulls[first:last])
        if found.key_bounds is None:
            self.key_nulls.append(b"\1" * count)
        else:
            self.key_nulls.append(bytes(count) if found.key_nulls is None else found.key_nulls[first:last])


class _Pieces:
    """A column of byte strings that grows block by block."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self._ends: list[Buffer] = [bytes(4)]
        self._total = 0

    def add(self, bounds: memoryview | None, data: memoryview, first: int, last: int) -> None:
        if bounds is None:
            self._ends.append(self._total.to_bytes(4, "little") * (last - first))
            return
        low = int.from_bytes(bounds[4 * first : 4 * first + 4], "little")
        high = int.from_bytes(bounds[4 * last : 4 * last + 4], "little")
        self._ends.append(_moved(bounds[4 * (first + 1) : 4 * (last + 1)], self._total - low))
        self.parts.append(data[low:high])
        self._total += high - low

    def bounds(self) -> Buffer:
        return b"".join(self._ends)


def _moved(bounds: memoryview, distance: int) -> Buffer:
    if distance == 0 or not bounds:
        return bounds
    lanes = int.from_bytes(bounds, "little") + distance * _ones(len(bounds))
    return lanes.to_bytes(len(bounds), "little")


@lru_cache(maxsize=64)
def _ones(size: int) -> int:
    """1 in each 32-bit lane."""
    return int.from_bytes(b"\1\0\0\0" * (size // 4), "little")


def _joined(parts: Sequence[Buffer]) -> Buffer:
    return parts[0] if len(parts) == 1 else b"".join(parts)
