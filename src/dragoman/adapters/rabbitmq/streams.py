"""Looking into a stream: where it begins and ends, and what stands where."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.wire import OFFSET, is_birth, time_of
from dragoman.core.errors import BrokerUnavailable

ALL = 60_000
"""More than a chunk of a stream holds, less than a prefetch can be."""
UNBORN = 3.0
"""Whoever made a stream may have died before its birth. After so many seconds it is given one more."""
SKEW = 1000
"""Publishers' clocks differ: so many messages before the one that was found are looked at, too."""


class Record(NamedTuple):
    offset: int
    properties: Any
    body: bytes


async def look(
    link: Link, stream: str, offset: int | str, prefetch: int = ALL, patience: float | None = None
) -> list[Record]:
    """What the stream holds from ``offset`` on: to its end, or at least ``prefetch`` records.

    The server sends all that it has for a new consumer in one go. So once one record is here, the answer to
    a further question comes behind the last of them. There must be one: every stream has its birth.
    """
    found: list[Record] = []
    first = asyncio.Event()

    def take(_: int, properties: Any, body: bytes) -> None:
        found.append(Record(int(properties.headers[OFFSET]), properties, body))
        first.set()

    async with link.borrowed() as pipe:
        await pipe.basic_qos(prefetch_count=prefetch)
        await pipe.consume(stream, take, arguments={"x-stream-offset": offset}, on_end=first.set)
        async with asyncio.timeout(patience):
            await first.wait()
        await pipe.basic_qos(prefetch_count=prefetch)
    if not found:
        raise BrokerUnavailable("The stream was deleted meanwhile.", next="Try again.", stream=stream)
    return found


async def bounds(link: Link, stream: str) -> tuple[int, int]:
    """The earliest offset kept and the one after the last, without the birth: as messages count."""
    first, last = await asyncio.gather(look(link, stream, "first", 1), look(link, stream, "last"))
    return max(0, first[0].offset - 1), last[-1].offset


async def end(link: Link, stream: str) -> int:
    return (await look(link, stream, "last"))[-1].offset


async def record_at(link: Link, stream: str, offset: int) -> Record | None:
    """The record of the message with this offset, or the next one that is kept."""
    return next(
        (each for each in await look(link, stream, offset + 1, 1) if each.offset >= offset + 1),
        None,
    )


async def offset_at(link: Link, stream: str, timestamp: int) -> int:
    """The first offset with this time or a later one, where times mostly rise; the end if there is none."""
    first, last = await bounds(link, stream)
    low, high = first, last
    while high - low > SKEW:
        middle = (low + high) // 2
        probe = await record_at(link, stream, middle)
        if probe is None or time_of(probe.properties) >= timestamp:
            high = middle
        else:
            low = middle + 1
    at = max(first, low - SKEW)
    while at < last:
        for record in await look(link, stream, at + 1, 2 * SKEW):
            if (
                record.offset > at
                and not is_birth(record.properties)
                and time_of(record.properties) >= timestamp
            ):
                return record.offset - 1
        at = record.offset
    return last
