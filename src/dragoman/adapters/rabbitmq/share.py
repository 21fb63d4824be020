"""One partition while this member has it: its place, and the messages at hand."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.adapters.rabbitmq import names, positions
from dragoman.adapters.rabbitmq.errors import translated
from dragoman.adapters.rabbitmq.link import Link, discard
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.adapters.rabbitmq.streams import record_at
from dragoman.adapters.rabbitmq.wire import message_of
from dragoman.core.message import Message
from dragoman.core.progress import Progress

AWAKE = 600.0
"""The server closes an AMQP channel whose deliveries wait half an hour. So many seconds they may."""


def _offset(message: Message) -> int:
    return message.offset or 0


class Share:
    """Reads the stream ahead, up to the prefetch, and hands messages out as the group's place allows.

    ``_log`` has what was read and is not done, in order; from ``_next`` on it was not handed out.
    ``_kept`` has what was set aside.
    """

    def __init__(self, channel: str, partition: int, queue: str, progress: Progress) -> None:
        self.channel = channel
        self.partition = partition
        self.queue = queue
        self.progress = progress
        self.lost = False
        self.leave_by: float | None = None
        self._log: list[Message] = []
        self._next = 0
        self._kept: dict[int, Message] = {}
        self._pipe: Pipe | None = None
        self._credited = 0
        self._credited_at = time.monotonic()
        self._last_tag = 0

    async def start(self, link: Link, wake: Callable[[], None]) -> None:
        stream = names.stream(self.channel, self.partition)
        for offset in list(self.progress.aside):
            record = await record_at(link, stream, offset)
            message = record and message_of(self.channel, self.partition, record.properties, record.body)
            if message and message.offset == offset:
                self._kept[offset] = message
            else:
                # Retention was faster.
                del self.progress.aside[offset]

        def take(tag: int, properties: Any, body: bytes) -> None:
            message = message_of(self.channel, self.partition, properties, body)
            self._last_tag = tag
            if message is not None:
                self._log.append(message)
                wake()

        def ended() -> None:
            self.lost = True
            wake()

        self._pipe = await link.pipe()
        with translated(channel=self.channel):
            async with asyncio.timeout(link.options.timeout):
                await self._pipe.basic_qos(prefetch_count=link.options.prefetch)
                start = {"x-stream-offset": self.progress.position + 1}
                await self._pipe.consume(stream, take, arguments=start, on_end=ended)

    async def stop(self) -> None:
        if self._pipe is not None:
            await discard(self._pipe)

    def take(self, limit: int, now: float) -> list[Message]:
        progress = self.progress
        if progress.plain:
            taken = self._log[self._next : self._next + limit]
            if taken:
                self._next += len(taken)
                progress.cursor = _offset(taken[-1]) + 1
            return taken
        progress.step_over()
        taken = [self._delivery(self._kept[offset]) for offset in progress.take_due(now, limit).returned]
        while len(taken) < limit and self._next < len(self._log):
            message = self._log[self._next]
            self._next += 1
            if not progress.skips(_offset(message)):
                taken.append(self._delivery(message))
            progress.cursor = max(progress.cursor, _offset(message) + 1)
        return taken

    def _delivery(self, message: Message) -> Message:
        attempt = self.progress.attempt(_offset(message))
        return message if attempt == 1 else message._replace(attempt=attempt)

    async def refill(self, prefetch: int) -> None:
        """Let the server send more once much of what it sent was handed out, or has waited for long."""
        if self._pipe is None or self._last_tag == self._credited:
            return
        now = time.monotonic()
        if len(self._log) - self._next <= prefetch // 2 or now - self._credited_at >= AWAKE:
            self._credited, self._credited_at = self._last_tag, now
            with translated(channel=self.channel):
                await self._pipe.basic_ack(self._last_tag, multiple=True, wait=False)

    def acknowledge(self, offset: int) -> None:
        for done in self.progress.acknowledge(offset):
            self._kept.pop(done, None)
        done = bisect_left(self._log, self.progress.position, hi=self._next, key=_offset)
        del self._log[:done]
        self._next -= done

    def release(self, offsets: Iterable[int], due: float | None) -> None:
        wanted = set(offsets)
        if due is not None:
            for offset in wanted - self._kept.keys():
                self._kept[offset] = self._log[bisect_left(self._log, offset, key=_offset)]
        self.progress.release(wanted, due)
        self._next = min(self._next, bisect_left(self._log, self.progress.cursor, key=_offset))

    def record(self, count_deliveries: bool) -> bytes:
        return positions.written(self.progress, count_deliveries)
