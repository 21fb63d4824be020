"""Slices of a log as columns, and how headers are packed into one of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dragoman.core.errors import DecodeError
from dragoman.core.message import Headers

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
    for name, value in headers:
        raw = name.encode()
        parts += (_LENGTHS.pack(len(raw), len(value)), raw, value)
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
