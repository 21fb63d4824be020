"""Messages as AMQP 0.9.1 frames and back.

Key, time and absence of a payload travel as headers of the AMQP message, beside the sender's own headers,
so that any AMQP client can read them. Publishing writes whole batches of frames at once: the driver's way,
one object per frame, costs ten times as much.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Any

import pamqp.frame
from pamqp.commands import Basic

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Headers, Message

KEY = "dragoman-key"
TIME = "dragoman-time"
NULL = "dragoman-null"
PACKED = "dragoman-headers"
"""Headers whose names repeat or are not in order: the server sorts them, and keeps one of each."""
BIRTH = "dragoman-birth"
"""The first record of every stream, so that none is ever empty. Not a message."""
OFFSET = "x-stream-offset"
"""Set by the server."""

_RESERVED = frozenset({KEY, TIME, NULL, PACKED, BIRTH})
_SERVERS_OWN = (OFFSET, "x-death", "x-first-death-", "x-last-death-", "x-delivery-count")

_FRAME = Struct(">BHI")
_CONTENT = Struct(">HHQHI")
_LENGTH = Struct(">I")
_LONG = Struct(">q")
_SECONDS = Struct(">BQ")
_HEADERS_MODE_TIME = (1 << 13) | (1 << 12) | (1 << 6)
_PERSISTENT = 2
_BASIC = 60
_LONGEST_NAME = 255
_END = b"\xce"


def _field(name: str, kind: bytes) -> bytes:
    raw = name.encode()
    return bytes((len(raw),)) + raw + kind


_KEY_FIELD = _field(KEY, b"x")
_TIME_FIELD = _field(TIME, b"l")
_NULL_FIELD = _field(NULL, b"t") + b"\x01"
_PACKED_FIELD = _field(PACKED, b"x")
_BIRTH_FIELD = _field(BIRTH, b"t") + b"\x01"


@lru_cache(maxsize=4096)
def _publish_method(number: int, exchange: str, routing_key: str) -> bytes:
    """Mandatory: what no queue would get comes back instead of vanishing."""
    method = Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=True)
    return pamqp.frame.marshal(method, number)


@lru_cache(maxsize=1024)
def _header_field(name: str) -> bytes:
    return _field(name, b"x")


def _header_fields(headers: Headers) -> bytes:
    names = [name for name, _ in headers]
    plain = all(before < after for before, after in pairwise(names))
    if not plain or any(
        name in _RESERVED or name.startswith(_SERVERS_OWN) or len(name.encode()) > _LONGEST_NAME
        for name in names
    ):
        packed = pack_headers(headers)
        return _PACKED_FIELD + _LENGTH.pack(len(packed)) + packed
    return b"".join(_header_field(name) + _LENGTH.pack(len(value)) + value for name, value in headers)


def frames_of(
    number: int, exchange: str, routing_key: str, message: Message, now: int, frame_max: int
) -> bytes:
    """One message as it is sent on AMQP channel ``number``: method, header, body."""
    _, payload, key, headers, _, _, timestamp, _ = message
    stamp = now if timestamp is None else timestamp
    fields = _TIME_FIELD + _LONG.pack(stamp)
    if key is not None:
        fields += _KEY_FIELD + _LENGTH.pack(len(key)) + key
    if payload is None:
        fields += _NULL_FIELD
        payload = b""
    if headers:
        fields += _header_fields(headers)
    return _content(number, exchange, routing_key, payload, fields, max(0, stamp // 1000), frame_max)


def birth_frames(number: int, stream: str) -> bytes:
    return _content(number, "", stream, b"", _BIRTH_FIELD, int(time.time()), 4096)


def plain_frames(number: int, queue: str, body: bytes, frame_max: int) -> bytes:
    """A record of the adapter's own."""
    return _content(number, "", queue, body, b"", int(time.time()), frame_max)


def _content(
    number: int, exchange: str, routing_key: str, body: bytes, fields: bytes, seconds: int, frame_max: int
) -> bytes:
    size = len(body)
    header = (
        _CONTENT.pack(_BASIC, 0, size, _HEADERS_MODE_TIME, len(fields))
        + fields
        + _SECONDS.pack(_PERSISTENT, seconds)
    )
    if len(header) + 8 > frame_max:
        raise EncodeError(
            f"Key and headers of {len(fields)} bytes are too large for RabbitMQ.",
            code="message.too-large",
            next=f"Use less than {frame_max} bytes, or set frame_max on the server.",
        )
    method = _publish_method(number, exchange, routing_key)
    start = method + _FRAME.pack(2, number, len(header)) + header + _END
    if size + 8 <= frame_max:
        return start + _FRAME.pack(3, number, size) + body + _END if size else start
    step = frame_max - 8
    parts = [start]
    for at in range(0, size, step):
        piece = body[at : at + step]
        parts += (_FRAME.pack(3, number, len(piece)), piece, _END)
    return b"".join(parts)


def message_of(channel: str, partition: int, properties: Any, body: bytes) -> Message | None:
    """A delivery from a stream as a message; ``None`` for a record that is none.

    The first record of a stream is its birth: our offsets count from the one after it. Other programs may
    send any header of any type, so this never fails.
    """
    table: Mapping[str, Any] = properties.headers or {}
    if is_birth(properties):
        return None
    key = table.get(KEY)
    return Message(
        channel,
        None if table.get(NULL) is True else body,
        None if key is None else _bytes_of(key),
        _headers_of(table),
        partition,
        int(table[OFFSET]) - 1,
        time_of(properties),
    )


def is_birth(properties: Any) -> bool:
    table: Mapping[str, Any] = properties.headers or {}
    return BIRTH in table and int(table[OFFSET]) == 0


def time_of(properties: Any) -> int:
    """In milliseconds; of a foreign sender's message, what AMQP has, or the beginning of time."""
    stamp = (properties.headers or {}).get(TIME)
    if isinstance(stamp, int) and not isinstance(stamp, bool):
        return stamp
    return 0 if properties.timestamp is None else int(properties.timestamp.timestamp() * 1000)


def _headers_of(table: Mapping[str, Any]) -> Headers:
    packed = table.get(PACKED)
    if isinstance(packed, bytes | bytearray):
        with contextlib.suppress(DecodeError):
            return unpack_headers(packed)
    return tuple(
        (name, _bytes_of(value))
        for name, value in table.items()
        if name not in _RESERVED and not name.startswith(_SERVERS_OWN)
    )


def _bytes_of(value: Any) -> bytes:
    """Text in UTF-8, and of other types what they look like as text."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return str(value).encode(errors="backslashreplace")
