"""Reading what a channel holds, by offset, without joining a group."""

from __future__ import annotations

import asyncio
import heapq
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Literal, TypeVar

from dragoman.core.broker import Broker, LogReader
from dragoman.core.errors import DamagedLog
from dragoman.core.log import Buffer, LogSlice, unpack_headers
from dragoman.core.message import Message

Start = Literal["earliest", "latest"] | int
"""A number is milliseconds since the epoch."""

Damaged = Callable[[DamagedLog], None]

T = TypeVar("T")

CHUNK = 500
POLL = 0.2


async def history(
    broker: Broker,
    channel: str,
    *,
    start: Start = "earliest",
    last: int | None = None,
    follow: bool = False,
    damaged: Damaged | None = None,
) -> AsyncIterator[Message]:
    """The messages of all partitions, merged by time; with ``follow`` also those that come later.

    ``last`` begins so many messages before the end of each partition, whatever ``start`` says. Messages that
    cannot be read any more are left out if ``damaged`` is given: it is called, in another thread, for each
    such range. Raises ``ChannelNotFound``; ``DamagedLog`` without ``damaged``; ``Unsupported`` where the
    broker cannot read its past.
    """
    # A log is read by one thread alone, and never by the event loop's.
    with ThreadPoolExecutor(1, thread_name_prefix="dragoman-history") as executor:

        async def within(work: Callable[[], T]) -> T:
            return await asyncio.get_running_loop().run_in_executor(executor, work)

        log = await within(broker.log)
        try:
            positions = await within(lambda: _positions(log, channel, start, last))
            while True:
                merged = await within(partial(_merged, log, channel, positions, damaged))
                while chunk := await within(partial(_some, merged)):
                    for message in chunk:
                        yield message
                if not follow:
                    return
                await asyncio.sleep(POLL)
        finally:
            await within(log.close)


def _some(messages: Iterator[Message]) -> list[Message]:
    return list(islice(messages, CHUNK))


def _positions(log: LogReader, channel: str, start: Start, last: int | None) -> dict[int, int]:
    found: dict[int, int] = {}
    for partition, (earliest, end) in log.partitions(channel).items():
        if last is not None:
            found[partition] = max(earliest, end - last)
        elif start == "earliest":
            found[partition] = earliest
        elif start == "latest":
            found[partition] = end
        else:
            found[partition] = log.offset_at(channel, partition, start)
    return found


def _merged(
    log: LogReader, channel: str, positions: dict[int, int], damaged: Damaged | None
) -> Iterator[Message]:
    """Up to what is the end now. ``positions`` is where to go on afterwards."""
    ends = {partition: end for partition, (_, end) in log.partitions(channel).items()}
    parts = [
        read_partition(log, channel, partition, positions, end, damaged) for partition, end in ends.items()
    ]
    return heapq.merge(*parts, key=lambda message: message.timestamp or 0)


def read_partition(
    log: LogReader,
    channel: str,
    partition: int,
    positions: dict[int, int],
    end: int,
    damaged: Damaged | None,
) -> Iterator[Message]:
    """The messages of one partition from its position on and before ``end``, which moves the position.

    What cannot be read any more is left out if ``damaged`` is given, and raises ``DamagedLog`` otherwise.
    """
    positions.setdefault(partition, 0)
    while positions[partition] < end:
        try:
            found = log.read(channel, partition, positions[partition], end)
        except DamagedLog as error:
            if damaged is None:
                raise
            damaged(error)
            positions[partition] = error.until
            continue
        for message in messages_of(found, channel, partition):
            positions[partition] = (message.offset or 0) + 1
            yield message
        if found.next_offset <= positions[partition] and not found.count:
            return
        positions[partition] = max(positions[partition], found.next_offset)


def messages_of(slice: LogSlice, channel: str, partition: int) -> Iterator[Message]:
    """The rows of a slice's columns."""
    count = slice.count
    offsets = struct.unpack(f"<{count}q", slice.offsets)
    timestamps = struct.unpack(f"<{count}q", slice.timestamps)
    values = _cells(count, slice.value_bounds, slice.values, slice.value_nulls)
    keys = _cells(count, slice.key_bounds, slice.keys, slice.key_nulls)
    headers = _cells(count, slice.header_bounds, slice.headers, None)
    for offset, timestamp, value, key, packed in zip(offsets, timestamps, values, keys, headers, strict=True):
        yield Message(channel, value, key, unpack_headers(packed or b""), partition, offset, timestamp)


def _cells(count: int, bounds: Buffer, data: Buffer, nulls: Buffer | None) -> Iterator[bytes | None]:
    edges = struct.unpack(f"<{count + 1}i", bounds)
    missing = bytes(nulls) if nulls is not None else bytes(count)
    for row in range(count):
        yield None if missing[row] else bytes(data[edges[row] : edges[row + 1]])
