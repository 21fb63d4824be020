"""The history of channels by offset, synchronous, as columns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from dragoman.adapters.rabbitmq import names, streams
from dragoman.adapters.rabbitmq.catalog import Catalog
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.options import options_of
from dragoman.adapters.rabbitmq.session import Session
from dragoman.core.ending import end
from dragoman.core.errors import ChannelNotFound
from dragoman.core.log import LogSlice, slice_of

T = TypeVar("T")

SLICE_MESSAGES = 10_000
SLICE_BYTES = 16 << 20


class RabbitmqLogReader:
    """Implements ``dragoman.core.broker.LogReader``. Picklable: only the URL travels.

    The driver needs an event loop: it has one of its own, in a thread that ends with ``close``.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._options = options_of(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._opened: tuple[Link, Catalog] | None = None
        self._sessions: dict[tuple[str, int], Session] = {}

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        return self._run(self._bounds(channel))

    def channels(self) -> Sequence[str]:
        return self._run(self._names())

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        return self._run(self._offset_at(channel, partition, timestamp))

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        return self._run(self._read(channel, partition, start, end))

    async def _names(self) -> Sequence[str]:
        _, catalog = await self._open()
        return await catalog.channels()

    async def _bounds(self, channel: str) -> Mapping[int, tuple[int, int]]:
        link, catalog = await self._open()
        numbers = range((await catalog.entry(channel)).channel.partitions)
        found = await asyncio.gather(
            *(streams.bounds(link, names.stream(channel, number)) for number in numbers)
        )
        return dict(zip(numbers, found, strict=True))

    async def _offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        link, stream = await self._stream(channel, partition)
        return await streams.offset_at(link, stream, timestamp)

    async def _read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        link, stream = await self._stream(channel, partition)
        if start >= end:
            return slice_of([], start)
        session = await self._session(link, stream, channel, partition, start, end)
        end = min(end, session.end)
        if start >= end:
            return slice_of([], start)
        return slice_of(await session.take(end, SLICE_MESSAGES, SLICE_BYTES), end)

    async def _session(
        self, link: Link, stream: str, channel: str, partition: int, start: int, end: int
    ) -> Session:
        """Where the last read ended, if this one begins there; else a new one."""
        session = self._sessions.get((channel, partition))
        if session is None or not session.continues(start):
            if session is not None:
                del self._sessions[channel, partition]
                await session.close()
            last = await streams.end(link, stream)
            session = Session(link, channel, partition, last)
            if start < last:
                await session.open(start)
            self._sessions[channel, partition] = session
        elif end > session.end:
            session.end = await streams.end(link, stream)
        return session

    async def _stream(self, channel: str, partition: int) -> tuple[Link, str]:
        link, catalog = await self._open()
        entry = await catalog.entry(channel, fresh=False)
        if not 0 <= partition < entry.channel.partitions:
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel)
        return link, names.stream(channel, partition)

    async def _open(self) -> tuple[Link, Catalog]:
        if self._opened is None:
            link = Link(self._options)
            self._opened = link, Catalog(link)
            await link.open()
            await self._opened[1].open()
        await self._opened[0].open(self._options.timeout)
        return self._opened

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="dragoman rabbitmq log", daemon=True
            )
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        self._sessions.clear()
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _shut(self) -> None:
        if self._opened is not None:
            await self._opened[0].close()
            self._opened = None
        # The driver's last tasks end before their loop does.
        own = asyncio.current_task()
        await end(*(task for task in asyncio.all_tasks() if task is not own))

    def __reduce__(self) -> tuple[object, ...]:
        return RabbitmqLogReader, (self._url,)
