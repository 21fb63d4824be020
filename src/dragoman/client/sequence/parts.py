"""Cutting a message in parts, and what each part says about itself."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.client.headers import MESSAGE_ID, SEQUENCE_ID, SEQUENCE_POSITION, SEQUENCE_SIZE
from dragoman.core.errors import ConfigurationError, EncodeError, FrameError
from dragoman.core.message import Headers, Message, header, with_headers

PART = 256 * 1024
"""Bytes of a part: every broker takes that much as it is installed."""
_LONGEST = 9


class Place(NamedTuple):
    """Which part this is: ``position`` counts from 0 to ``size`` - 1."""

    id: bytes
    position: int
    size: int


class Whole(Message):
    """A message put together again. It stands where its last part stood."""

    parts: tuple[Message, ...] = ()


def cut(message: Message, size: int) -> list[Message]:
    """The parts of a message, in order. They share a key, so that they share a partition."""
    if size < 1:
        raise ConfigurationError(f"A part of {size} bytes holds nothing.", next="Use 1 or more.")
    payload = message.payload
    if payload is None:
        raise EncodeError("A tombstone has no parts.", next="Publish it as it is.", channel=message.channel)
    id = secrets.token_hex(8).encode()
    pieces = [payload[start : start + size] for start in range(0, len(payload), size)] or [b""]
    return [
        message._replace(
            payload=piece, key=message.key or id, headers=_marked(message.headers, id, position, len(pieces))
        )
        for position, piece in enumerate(pieces)
    ]


def _marked(headers: Headers, id: bytes, position: int, size: int) -> Headers:
    number = b"%d" % position
    marks = [(SEQUENCE_ID, id), (SEQUENCE_POSITION, number), (SEQUENCE_SIZE, b"%d" % size)]
    named = header(headers, MESSAGE_ID)
    if named is not None:
        # A broker that tells repetitions by it must not take one part for another.
        marks.append((MESSAGE_ID, named + b"/" + number))
    return with_headers(headers, *marks)


def resent(message: Message, mark: bytes) -> Message:
    """A part that is sent once more on purpose is one of a new sequence: the old one may be done with."""
    id = header(message.headers, SEQUENCE_ID)
    if id is None:
        return message
    new = id + b"." + mark
    key = new if message.key == id else message.key
    return message._replace(key=key, headers=with_headers(message.headers, (SEQUENCE_ID, new)))


def place_of(message: Message) -> Place | None:
    """``None`` if it is no part. Raises ``FrameError`` if it is one that makes no sense."""
    id = header(message.headers, SEQUENCE_ID)
    if id is None:
        return None
    position, size = (header(message.headers, name) for name in (SEQUENCE_POSITION, SEQUENCE_SIZE))
    numbers = [int(each) for each in (position, size) if each and each.isdigit() and len(each) <= _LONGEST]
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] or message.payload is None:
        raise FrameError(
            "This part of a sequence has no position and size that make sense.",
            code="message.sequence",
            next=f"A part has the headers {SEQUENCE_ID}, {SEQUENCE_POSITION} and {SEQUENCE_SIZE}.",
        )
    return Place(id, *numbers)


def join(parts: Sequence[Message]) -> Whole:
    """The whole of all parts, in order."""
    last = parts[-1]
    marks = (SEQUENCE_ID, SEQUENCE_POSITION, SEQUENCE_SIZE)
    headers = tuple(pair for pair in last.headers if pair[0] not in marks)
    named = header(headers, MESSAGE_ID)
    if named is not None:
        headers = with_headers(headers, (MESSAGE_ID, named.removesuffix(b"/%d" % (len(parts) - 1))))
    key = None if last.key == header(last.headers, SEQUENCE_ID) else last.key
    whole = Whole(
        last.channel,
        b"".join(part.payload or b"" for part in parts),
        key,
        headers,
        last.partition,
        last.offset,
        last.timestamp,
        max(part.attempt for part in parts),
    )
    whole.parts = tuple(parts)
    return whole
