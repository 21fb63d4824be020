"""From the driver's messages to ours, many at once: loops over methods of the driver run outside Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

from confluent_kafka import Message as Raw

from dragoman.core.message import Headers, Message, Position, message_of

_position = partial(tuple.__new__, Position)
_millis = itemgetter(1)


def messages_of(found: Sequence[Any]) -> Iterator[Message]:
    """None of them may be an error."""
    headers = list(map(Raw.headers, found))
    columns = zip(
        map(Raw.topic, found),
        map(Raw.value, found),
        map(Raw.key, found),
        map(_pairs, headers) if any(headers) else repeat(()),
        map(Raw.partition, found),
        map(Raw.offset, found),
        map(_millis, map(Raw.timestamp, found)),
        repeat(1),
        strict=False,
    )
    return map(message_of, columns)


def positions_of(reports: Sequence[Any]) -> list[Position]:
    """Where messages are that were delivered."""
    columns = zip(map(Raw.topic, reports), map(Raw.partition, reports), map(Raw.offset, reports), strict=True)
    return list(map(_position, columns))


def _pairs(headers: Sequence[tuple[str, bytes | None]] | None) -> Headers:
    return tuple((name, value or b"") for name, value in headers) if headers else ()
