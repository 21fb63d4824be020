"""Message indexes: which message of a file a payload holds.

They stand before the message: a count and so many indexes, from the outermost message inwards, as zigzag
varints. The first message of a file, by far the most usual one, is the single byte 0.
"""

from __future__ import annotations

from dragoman.core.errors import DecodeError

Indexes = tuple[int, ...]

FIRST: Indexes = (0,)
MAX_LENGTH = 64
_MAX_INDEX = 2**31 - 1


def encode_indexes(indexes: Indexes) -> bytes:
    if indexes == FIRST:
        return b"\x00"
    out = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def decode_indexes(payload: bytes) -> tuple[Indexes, int]:
    """The indexes, and where the message starts. Raises ``DecodeError``."""
    count, at = _varint(payload, 0)
    if count == 0:
        return FIRST, at
    if not 0 < count <= MAX_LENGTH:
        raise DecodeError(f"The payload names a message {count} levels deep, {MAX_LENGTH} are possible.")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        if not 0 <= index <= _MAX_INDEX:
            raise DecodeError(f"{index} is not the index of a message.")
        indexes.append(index)
    return tuple(indexes), at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(payload):
            raise DecodeError("The payload ends within its message indexes.")
        byte = payload[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 35:
            raise DecodeError("The payload does not start with message indexes.")
