"""The frame of every message: a zero byte, the schema id in four bytes, big-endian, then the payload."""

from __future__ import annotations

import struct

from dragoman.core.errors import FrameError

MAGIC = 0
HEADER_SIZE = 5
MAX_ID = 2**31 - 1

_HEADER = struct.Struct(">Bi")


def header_of(schema_id: int) -> bytes:
    """The five bytes that stand before each payload of this schema."""
    if not 0 <= schema_id <= MAX_ID:
        raise FrameError(f"{schema_id} is not a schema id.", code="message.frame.id")
    return _HEADER.pack(MAGIC, schema_id)


def frame(schema_id: int, payload: bytes) -> bytes:
    return header_of(schema_id) + payload


def unframe(data: bytes, limit: int | None = None) -> tuple[int, bytes]:
    """The schema id and the payload. ``limit`` is the largest frame that is accepted, in bytes."""
    if len(data) < HEADER_SIZE:
        raise FrameError(
            f"A frame has at least {HEADER_SIZE} bytes, this has {len(data)}.",
            code="message.frame.truncated",
            next="Was it cut on its way, or written without a contract?",
        )
    if limit is not None and len(data) > limit:
        raise FrameError(
            f"The frame has {len(data)} bytes, {limit} are allowed.", code="message.frame.oversize"
        )
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != MAGIC or schema_id < 0:
        raise FrameError(
            f"The first byte is {magic:#04x}, a frame starts with 0x00 and a schema id.",
            code="message.frame.foreign",
            next="The sender does not use a contract for this channel.",
        )
    return schema_id, data[HEADER_SIZE:]
