"""Headers and payload as one string of bytes, for transports that know no headers.

Two bytes of count, then each header as two lengths (one byte, two bytes) with name and value, then the
payload. All numbers are big-endian.
"""

from __future__ import annotations

import struct

from dragoman.core.errors import EncodeError, FrameError
from dragoman.core.message import Headers

NO_HEADERS = b"\0\0"
"""How the envelope of a payload without headers begins."""

_COUNT = struct.Struct(">H")
_LENGTHS = struct.Struct(">BH")


def wrap(headers: Headers, payload: bytes) -> bytes:
    pieces = [_COUNT.pack(len(headers))]
    for name, value in headers:
        raw = name.encode()
        if len(raw) > 0xFF or len(value) > 0xFFFF:
            raise EncodeError(
                f"The header {name[:40]!r} is too long.",
                code="message.header",
                next="Names have up to 255 bytes, values up to 65,535.",
            )
        pieces += (_LENGTHS.pack(len(raw), len(value)), raw, value)
    return b"".join((*pieces, payload))


def unwrap(data: bytes) -> tuple[Headers, bytes]:
    """Raises ``FrameError`` for anything that ``wrap`` does not make."""
    try:
        (count,) = _COUNT.unpack_from(data)
        place, headers = _COUNT.size, []
        for _ in range(count):
            name_length, value_length = _LENGTHS.unpack_from(data, place)
            middle = place + _LENGTHS.size + name_length
            end = middle + value_length
            if end > len(data):
                raise ValueError("cut")
            headers.append((data[place + _LENGTHS.size : middle].decode(), data[middle:end]))
            place = end
        return tuple(headers), data[place:]
    except (struct.error, ValueError) as error:
        raise FrameError("The envelope is damaged.", code="message.frame.envelope") from error
