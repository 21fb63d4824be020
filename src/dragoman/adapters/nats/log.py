"""The history of channels as columns, synchronous: a loop of its own in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from dragoman.adapters.nats.channels import Channels
from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.options import Options
from dragoman.adapters.nats.ranges import read_range
from dragoman.core.errors import ChannelNotFound
from dragoman.core.log import LogSlice, slice_of
from dragoman.core.seeking import seek

T = TypeVar("T")
SLICE_MESSAGES = 10_000
SLICE_BYTES = 16 << 20


class NatsLogReader:
    """Implements ``dragoman.core.broker.LogReader``. Picklable: only the options travel."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._link: Link | None = None
        self._channels: Channels | None = None

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        return self._run(self._partitions(channel))

    async def _partitions(self, channel: str) -> dict[int, tuple[int, int]]:
        channels = await self._connected()
        partitions = (await channels.describe(channel)).partitions
        return {number: await self._bounds(channel, number) for number in range(partitions)}

    def channels(self) -> Sequence[str]:
        return self._run(self._names())

    async def _names(self) -> list[str]:
        return await (await self._connected()).names()

    async def _bounds(self, channel: str, partition: int) -> tuple[int, int]:
        try:
            state = (await (await self._connected()).info(channel, partition))["state"]
        except ChannelNotFound:
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel) from None
        return max(0, state["first_seq"] - 1) if state["messages"] else state["last_seq"], state["last_seq"]

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        start, end = self._run(self._bounds(channel, partition))

        def stamps(offset: int, count: int) -> list[tuple[int, int]]:
            return self._run(self._stamps(channel, partition, offset, end, count))

        return seek(start, end, timestamp, stamps)

    async def _stamps(
        self, channel: str, partition: int, offset: int, end: int, count: int
    ) -> list[tuple[int, int]]:
        await self._connected()
        assert self._link is not None
        found = await read_range(self._link, (channel, partition), offset, end, count, SLICE_BYTES, bare=True)
        return [(message.offset or 0, message.timestamp or 0) for message in found]

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        return self._run(self._read(channel, partition, start, end))

    async def _read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        first, last = await self._bounds(channel, partition)
        start, end = max(start, first), min(end, last)
        if end <= start or self._link is None:
            return slice_of([], start)
        place = channel, partition
        messages = await read_range(self._link, place, start, end, SLICE_MESSAGES, SLICE_BYTES)
        return slice_of(messages, end)

    async def _connected(self) -> Channels:
        if self._channels is None:
            self._link = Link(self._options)
            await self._link.connect()
            self._channels = Channels(self._link)
        return self._channels

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="dragoman-nats-log", daemon=True
            )
            self._thread.start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def close(self) -> None:
        loop, thread, link = self._loop, self._thread, self._link
        if loop is None or thread is None:
            return
        if link is not None:
            asyncio.run_coroutine_threadsafe(link.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = self._link = self._channels = None

    def __reduce__(self) -> tuple[object, ...]:
        return NatsLogReader, (self._options,)
