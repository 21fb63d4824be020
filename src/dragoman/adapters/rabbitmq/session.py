"""Reading one partition from an offset on, in pieces."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from dragoman.adapters.rabbitmq import names
from dragoman.adapters.rabbitmq.errors import translated
from dragoman.adapters.rabbitmq.link import Link, discard
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.adapters.rabbitmq.wire import OFFSET, message_of
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message

AHEAD = 5000
"""Messages that the server may send before it is asked for more."""
PORTION = 1000
"""Nobody is woken for fewer, unless they are the last."""


class Session:
    """``end`` is where the partition ended when it was last looked at: nobody waits for more than that."""

    def __init__(self, link: Link, channel: str, partition: int, end: int) -> None:
        self.end = end
        self._link = link
        self._channel = channel
        self._partition = partition
        self._buffer: deque[Message] = deque()
        self._seen = -1
        self._next = -1
        self._tag = self._credited = 0
        self._last = 0
        self._pipe: Pipe | None = None
        self._more = asyncio.Event()
        self._ended = False

    def continues(self, start: int) -> bool:
        return self._pipe is not None and not self._ended and start == self._next

    async def open(self, start: int) -> None:
        self._next, self._seen = start, start - 1
        self._pipe = await self._link.pipe()
        with translated(channel=self._channel):
            async with asyncio.timeout(self._link.options.timeout):
                await self._pipe.basic_qos(prefetch_count=AHEAD)
                await self._pipe.consume(
                    names.stream(self._channel, self._partition),
                    self._take,
                    arguments={"x-stream-offset": start + 1},
                    on_end=self._end,
                )

    def _end(self) -> None:
        self._ended = True
        self._more.set()

    def _take(self, tag: int, properties: Any, body: bytes) -> None:
        self._tag = tag
        self._seen = int(properties.headers[OFFSET]) - 1
        message = message_of(self._channel, self._partition, properties, body)
        if message is not None:
            self._buffer.append(message)
        if len(self._buffer) >= PORTION or self._seen >= self._last:
            self._more.set()

    async def take(self, end: int, most: int, most_bytes: int) -> list[Message]:
        """Messages before ``end``, which must be there: some, unless all are gone or none."""
        found: list[Message] = []
        size = 0
        while len(found) < most and size < most_bytes:
            while self._buffer and len(found) < most and size < most_bytes:
                if (self._buffer[0].offset or 0) >= end:
                    self._next = end
                    return found
                message = self._buffer.popleft()
                size += len(message.payload or b"")
                found.append(message)
            if not self._buffer:
                if self._seen >= end - 1:
                    break
                await self._wait(end)
        self._next = (found[-1].offset or 0) + 1 if found else end
        return found

    async def _wait(self, end: int) -> None:
        pipe = self._pipe
        if pipe is None or self._ended:
            raise BrokerUnavailable(
                "The connection or the stream was lost while reading.", next="Read again."
            )
        self._more.clear()
        self._last = end - 1
        try:
            with translated(channel=self._channel):
                async with asyncio.timeout(self._link.options.timeout):
                    if self._tag - self._credited >= PORTION:
                        self._credited = self._tag
                        await pipe.basic_ack(self._tag, multiple=True, wait=False)
                    await self._more.wait()
        except BaseException:
            # What was taken up to here is given to nobody: whoever reads again begins a new session.
            self._ended = True
            raise

    async def close(self) -> None:
        if self._pipe is not None:
            await discard(self._pipe)
