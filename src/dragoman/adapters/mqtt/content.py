"""How key, headers and missing payloads travel: as user properties in MQTT 5, else in an envelope.

A channel's declaration says which of the two it uses, so that both sides agree whatever version they speak.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from functools import lru_cache
from typing import NamedTuple

from dragoman.adapters.mqtt.wire import Property, User, length, text
from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Headers, Message

PROPERTIES, ENVELOPE = "properties", "envelope"

KEY, KEY_BYTES, MISSING, TIME = "dragoman-key", "dragoman-key-b64", "dragoman-null", "dragoman-time"
BYTES = "dragoman-b64:"
"""Before the name of a header whose value is not text that MQTT may carry; the value is in Base64."""
LONGEST_TIME = 18
"""Digits of a timestamp: what has more is not one of ours, and would not fit where timestamps are kept."""
_OURS = frozenset({KEY, KEY_BYTES, MISSING, TIME})

_MAGIC = b"\xd1\x01"
_HAS_KEY, _IS_MISSING, _HAS_TIME = 1, 2, 4
_HEAD = struct.Struct(">2sBqII")


class Content(NamedTuple):
    payload: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int | None


def _pair(name: str, value: str) -> bytes:
    return bytes((Property.USER,)) + text(name) + text(value)


def _plain(value: bytes) -> str | None:
    """The text, if MQTT may carry it as text."""
    try:
        found = value.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in found or len(value) > 0xFFFF else found


@lru_cache(maxsize=1024)
def _header_pairs(headers: Headers) -> bytes:
    """Many messages have the same headers, or none."""
    parts = []
    for name, value in headers:
        if "\0" in name:
            raise ValueError("the name of a header holds a zero character.")
        plain = None if name in _OURS or name.startswith(BYTES) else _plain(value)
        if plain is None:
            parts.append(_pair(BYTES + name, b64encode(value).decode()))
        else:
            parts.append(_pair(name, plain))
    return b"".join(parts)


def _key_pair(key: bytes) -> bytes:
    plain = _plain(key)
    return _pair(KEY_BYTES, b64encode(key).decode()) if plain is None else _pair(KEY, plain)


def to_properties(message: Message, expiry: bytes) -> bytes:
    """Encoded properties of a PUBLISH. ``expiry`` is an encoded property to go with them, or nothing."""
    try:
        parts = expiry + _header_pairs(message.headers)
        if message.key is not None:
            parts += _key_pair(message.key)
        if message.payload is None:
            parts += _pair(MISSING, "1")
        if message.timestamp is not None:
            parts += _pair(TIME, str(message.timestamp))
    except ValueError as error:
        raise EncodeError(
            f"MQTT cannot carry this key or these headers: {error}",
            code="message.header",
            next="Shorten them, or put them into the payload.",
            channel=message.channel,
        ) from error
    return length(len(parts)) + parts


def from_properties(payload: bytes, user: User) -> Content:
    """The other way round. What other programs send is taken as it is."""
    if not user:
        return Content(payload, None, (), None)
    key, missing, timestamp = None, False, None
    headers: list[tuple[str, bytes]] = []
    for name, value in user:
        if name == KEY:
            key = value.encode()
        elif name == KEY_BYTES:
            key = _unpacked(value)
        elif name == MISSING:
            missing = True
        elif name == TIME and value.isascii() and value.isdigit() and len(value) <= LONGEST_TIME:
            timestamp = int(value)
        elif name.startswith(BYTES):
            headers.append((name.removeprefix(BYTES), _unpacked(value)))
        else:
            headers.append((name, value.encode()))
    return Content(None if missing else payload, key, tuple(headers), timestamp)


def _unpacked(value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (NotBase64, ValueError):
        return value.encode()


def to_envelope(message: Message) -> bytes:
    """Magic, flags, timestamp, sizes of key and headers, then key, headers and payload."""
    flags = (
        _HAS_KEY * (message.key is not None)
        | _IS_MISSING * (message.payload is None)
        | _HAS_TIME * (message.timestamp is not None)
    )
    key, headers = message.key or b"", pack_headers(message.headers)
    head = _HEAD.pack(_MAGIC, flags, message.timestamp or 0, len(key), len(headers))
    return b"".join((head, key, headers, message.payload or b""))


def from_envelope(raw: bytes) -> Content:
    """Raises ``DecodeError`` for bytes that are no envelope."""
    if len(raw) < _HEAD.size or not raw.startswith(_MAGIC):
        raise DecodeError("These bytes are no envelope.", next="Who publishes here without one?")
    _, flags, timestamp, key_size, headers_size = _HEAD.unpack_from(raw)
    middle = _HEAD.size + key_size
    end = middle + headers_size
    if end > len(raw):
        raise DecodeError("An envelope ends too early.")
    return Content(
        None if flags & _IS_MISSING else raw[end:],
        raw[_HEAD.size : middle] if flags & _HAS_KEY else None,
        unpack_headers(raw[middle:end]),
        timestamp if flags & _HAS_TIME else None,
    )
