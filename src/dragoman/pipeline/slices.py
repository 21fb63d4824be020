"""Slices of a log as Arrow columns, on the same memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dragoman.core.log import LogSlice
from dragoman.pipeline.arrow.text import invalid_text

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("name", pa.string()), ("value", pa.binary())])))
_LENGTHS = 6


class Columns(NamedTuple):
    """Some messages of one partition. ``headers`` are still packed."""

    offsets: Any
    timestamps: Any
    frames: Any
    keys: Any
    headers: Any

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, count: int) -> Columns:
        return Columns(*(tuple(each.slice(start, count) for each in self)))


def columns_of(found: LogSlice) -> Columns:
    count = found.count
    return Columns(
        _numbers(found.offsets, count),
        _numbers(found.timestamps, count),
        _binary(found.value_bounds, found.values, found.value_nulls, count),
        _binary(found.key_bounds, found.keys, found.key_nulls, count),
        _binary(found.header_bounds, found.headers, b"", count),
    )


def joined(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return Columns(*(pa.concat_arrays(list(each)) for each in zip(*parts, strict=True)))


def _numbers(data: Any, count: int) -> Any:
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(data)])


def _binary(bounds: Any, data: Any, nulls: Any, count: int) -> Any:
    validity = None
    if len(nulls):
        missing = np.frombuffer(nulls, dtype=np.uint8)
        if missing.any():
            validity = pa.array(missing == 0).buffers()[1]
    buffers = [validity, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def unpacked_headers(packed: Any) -> Any:
    """Packed headers as a list of names and values per row: one round per header, none per row."""
    count = len(packed)
    bounds = np.frombuffer(packed.buffers()[1], dtype=np.int32)[packed.offset : packed.offset + count + 1]
    data = np.frombuffer(packed.buffers()[2] or b"", dtype=np.uint8)
    at, ends = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
    found: list[tuple[Any, ...]] = []
    while (open_rows := np.flatnonzero(at + _LENGTHS <= ends)).size:
        start = at[open_rows]
        names = _big_endian(data, start, 2)
        values = _big_endian(data, start + 2, 4)
        after = start + _LENGTHS + names + values
        whole = after <= ends[open_rows]
        found.append((open_rows[whole], start[whole] + _LENGTHS, names[whole], values[whole]))
        at[open_rows] = np.where(whole, after, ends[open_rows])
    return _header_lists(found, data, count)


def _big_endian(data: Any, start: Any, width: int) -> Any:
    number: Any = np.zeros(len(start), dtype=np.int64)
    for place in range(width):
        number = (number << 8) | data[start + place]
    return number


def _header_lists(found: list[tuple[Any, ...]], data: Any, count: int) -> Any:
    bounds: Any = np.zeros(count + 1, dtype=np.int32)
    if not found:
        values = pa.array([], HEADERS_TYPE.value_type)
        return pa.Array.from_buffers(HEADERS_TYPE, count, [None, pa.py_buffer(bounds)], children=[values])
    rows, starts, names, values = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(rows, kind="stable")
    starts, names, values = starts[order], names[order], values[order]
    np.cumsum(np.bincount(rows, minlength=count), out=bounds[1:])
    cells = pa.StructArray.from_arrays(
        [
            invalid_text(_gathered(data, starts, names, pa.binary()))[0],
            _gathered(data, starts + names, values, pa.binary()),
        ],
        fields=list(HEADERS_TYPE.value_type),
    )
    return pa.Array.from_buffers(HEADERS_TYPE, count, [None, pa.py_buffer(bounds)], children=[cells])


def _gathered(data: Any, starts: Any, sizes: Any, type: Any) -> Any:
    bounds: Any = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    places = np.repeat(starts - bounds[:-1], sizes) + np.arange(bounds[-1])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(type, len(sizes), buffers)
