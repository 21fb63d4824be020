"""Slices of a log as columns, and how headers are packed into one of them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from sys import byteorder

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.message import Headers, Message

Buffer = bytes | bytearray | memoryview

_LENGTHS = struct.Struct(">HI")


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Some consecutive messages of one partition as columns: no object per message.

    Message ``i`` has the payload ``values[value_bounds[i]:value_bounds[i + 1]]``; keys and headers likewise.
    Bounds are little-endian int32 (one more than there are messages), offsets and timestamps (milliseconds)
    little-endian int64, nulls one byte each, 1 where the payload or key is missing. Offsets rise, but need
    not be consecutive. ``next_offset`` is where to go on reading.
    """

    count: int
    offsets: Buffer
    timestamps: Buffer
    value_bounds: Buffer
    values: Buffer
    value_nulls: Buffer
    key_bounds: Buffer
    keys: Buffer
    key_nulls: Buffer
    header_bounds: Buffer
    headers: Buffer
    next_offset: int

    def __len__(self) -> int:
        return self.count


def pack_headers(headers: Headers) -> bytes:
    """Each header as name length (2 bytes), value length (4 bytes), name, value. No headers: no bytes."""
    if not headers:
        return b""
    parts: list[bytes] = []
    try:
        for name, value in headers:
            raw = name.encode()
            parts += (_LENGTHS.pack(len(raw), len(value)), raw, value)
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError("The name of a header is text of 65,535 bytes at most.") from error
    return b"".join(parts)


def unpack_headers(packed: Buffer) -> Headers:
    if not packed:
        return ()
    data = bytes(packed)
    found: list[tuple[str, bytes]] = []
    at = 0
    try:
        while at < len(data):
            name_length, value_length = _LENGTHS.unpack_from(data, at)
            at += _LENGTHS.size
            middle, end = at + name_length, at + name_length + value_length
            if end > len(data):
                raise DecodeError("Packed headers end too early.")
            found.append((data[at:middle].decode(), data[middle:end]))
            at = end
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError("These bytes are not packed headers.") from error
    return tuple(found)


def slice_of(messages: Sequence[Message], end: int) -> LogSlice:
    """Messages as columns. ``end`` is where to go on if there are none."""
    offsets = array("q", [message.offset or 0 for message in messages])
    stamps = array("q", [message.timestamp or 0 for message in messages])
    headers = [pack_headers(message.headers) for message in messages]
    values, keys = [message.payload for message in messages], [message.key for message in messages]
    return LogSlice(
        count=len(messages),
        offsets=_little(offsets),
        timestamps=_little(stamps),
        value_bounds=_bounds_of(values),
        values=b"".join(value for value in values if value),
        value_nulls=bytes(value is None for value in values),
        key_bounds=_bounds_of(keys),
        keys=b"".join(key for key in keys if key),
        key_nulls=bytes(key is None for key in keys),
        header_bounds=_bounds_of(headers),
        headers=b"".join(headers),
        next_offset=(messages[-1].offset or 0) + 1 if messages else end,
    )


def _bounds_of(parts: Sequence[bytes | None]) -> bytes:
    at, bounds = 0, array("i", [0])
    for part in parts:
        at += len(part) if part else 0
        bounds.append(at)
    return _little(bounds)


def _little(numbers: array[int]) -> bytes:
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
