"""Cutting a message in parts, and what each part says about itself."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.client.headers import SEQUENCE_ID, SEQUENCE_POSITION, SEQUENCE_SIZE
from dragoman.core.errors import ConfigurationError, FrameError
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
    payload = message.payload or b""
    id = secrets.token_hex(8).encode()
    pieces = [payload[start : start + size] for start in range(0, len(payload), size)] or [b""]
    return [
        message._replace(
            payload=piece, key=message.key or id, headers=_marked(message.headers, id, position, len(pieces))
        )
        for position, piece in enumerate(pieces)
    ]


def _marked(headers: Headers, id: bytes, position: int, size: int) -> Headers:
    return with_headers(
        headers, (SEQUENCE_ID, id), (SEQUENCE_POSITION, b"%d" % position), (SEQUENCE_SIZE, b"%d" % size)
    )


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
