"""Messages as fields of stream entries, and as the strings that our scripts make of these."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count
from time import time_ns
from typing import Any

from dragoman.core.errors import DecodeError
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Headers, Message

_ENTRY = struct.Struct(">ddiii")
_DELAYED = struct.Struct(">QIiqiii")
_STAMP = struct.Struct(">dd")
_NUMBERS = count()


def arguments_of(messages: Sequence[Message], now: int) -> list[Any]:
    """For the script APPEND: how many, then each with its shape, timestamp and parts."""
    found: list[Any] = [len(messages)]
    for _, payload, key, headers, _, _, timestamp, _ in messages:
        stamp = now if timestamp is None else timestamp
        if headers or payload is None:
            shape, parts = _parts(payload, key, headers)
            found += (shape, stamp, *parts)
        elif key is None:
            found += (b"v", stamp, payload)
        else:
            found += (b"vk", stamp, payload, key)
    return found


def _parts(payload: bytes | None, key: bytes | None, headers: Any) -> tuple[bytes, list[bytes]]:
    found = [
        (b"v", payload),
        (b"k", key),
        (b"h", pack_headers(headers) or None),
    ]
    given = [(letter, part) for letter, part in found if part is not None]
    return b"".join(letter for letter, _ in given), [part for _, part in given]


def fields_of(message: Message, now: int) -> list[Any]:
    """Names and values, as XADD takes them."""
    shape, parts = _parts(message.payload, message.key, message.headers)
    fields: list[Any] = ["t", now if message.timestamp is None else message.timestamp]
    for letter, part in zip(shape.decode(), parts, strict=True):
        fields += (letter, part)
    return fields


def messages_in(blob: bytes, channel: str, partition: int) -> list[Message]:
    """What the script READ found in one stream."""
    found: list[Message] = []
    append, unpack, at, end = found.append, _ENTRY.unpack_from, 0, len(blob)
    while at < end:
        number, stamp, payload_size, key_size, headers_size = unpack(blob, at)
        at += 28
        payload = key = None
        headers: Any = ()
        if payload_size >= 0:
            payload = blob[at : at + payload_size]
            at += payload_size
        if key_size >= 0:
            key = blob[at : at + key_size]
            at += key_size
        if headers_size >= 0:
            headers = _unpacked(blob[at : at + headers_size])
            at += headers_size
        append(Message(channel, payload, key, headers, partition, int(number) - 1, _time_of(stamp)))
    return found


def _unpacked(packed: bytes) -> Headers:
    """Another program may have written anything. Its payload may be of use nonetheless."""
    try:
        return unpack_headers(packed)
    except DecodeError:
        return ()


def _time_of(stamp: float) -> int:
    """Milliseconds; 0 for what another program has written and is no time."""
    return int(stamp) if -(2.0**63) <= stamp < 2.0**63 else 0


def stamps_in(blob: bytes) -> list[tuple[int, int]]:
    """Offset and timestamp of each, as the script STAMPS found them."""
    return [(int(number) - 1, _time_of(stamp)) for number, stamp in _STAMP.iter_unpack(blob)]


def pack_delayed(message: Message) -> bytes:
    """Unlike any other, and sorted as they were published."""
    key, headers = message.key, pack_headers(message.headers)
    sizes = [-1 if part is None else len(part) for part in (message.payload, key)]
    head = _DELAYED.pack(
        time_ns(),
        next(_NUMBERS) & 0xFFFFFFFF,
        -1 if message.partition is None else message.partition,
        -1 if message.timestamp is None else message.timestamp,
        *sizes,
        len(headers),
    )
    return head + (message.payload or b"") + (key or b"") + headers


def unpack_delayed(data: bytes, channel: str) -> Message:
    _, _, partition, timestamp, payload_size, key_size, headers_size = _DELAYED.unpack_from(data)
    first = _DELAYED.size + max(0, payload_size)
    second = first + max(0, key_size)
    return Message(
        channel,
        None if payload_size < 0 else data[_DELAYED.size : first],
        None if key_size < 0 else data[first:second],
        unpack_headers(data[second : second + headers_size]),
        None if partition < 0 else partition,
        timestamp=None if timestamp < 0 else timestamp,
    )
