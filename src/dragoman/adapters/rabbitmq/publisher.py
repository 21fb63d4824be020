"""Publishing: in batches, confirmed, never silently again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence

from dragoman.adapters.rabbitmq import names, wire
from dragoman.adapters.rabbitmq.catalog import Catalog
from dragoman.adapters.rabbitmq.delays import Delays
from dragoman.adapters.rabbitmq.errors import translated
from dragoman.adapters.rabbitmq.link import Link, discard
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound
from dragoman.core.message import Message
from dragoman.core.partitioning import Partitioner

BATCH = 256
"""Messages that are written at once. In between, the other tasks of the loop have their turn."""


class Publisher:
    """While the connection is lost a publish waits for the next one, up to the option ``timeout``.

    What was sent and not confirmed when the connection breaks may or may not have arrived: that is an error,
    and the caller decides whether to send it again.
    """

    def __init__(self, link: Link, catalog: Catalog) -> None:
        self._link = link
        self._catalog = catalog
        self._delays = Delays(link)
        self._pipe: Pipe | None = None
        self._opening = asyncio.Lock()
        self._partitioners: dict[str, Partitioner] = {}
        self._unconfirmed: set[asyncio.Future[None]] = set()

    async def publish(self, messages: Sequence[Message], delay: float) -> None:
        if not messages:
            return
        patience = self._link.options.timeout
        await self._link.open(patience)
        counts = {
            name: (await self._catalog.entry(name, fresh=False)).channel.partitions
            for name in {message.channel for message in messages}
        }
        holding = await self._delays.queue(delay) if delay > 0 else None
        pipe = await self._open_pipe()
        routes = [
            self._route(message, counts[message.channel], holding and holding.exchange)
            for message in messages
        ]
        try:
            await self._send(pipe, messages, routes)
        except ChannelNotFound:
            # The pipe closed for all that were using it: whose channel is it that is gone?
            for name in counts:
                await self._catalog.entry(name)
            raise BrokerUnavailable(
                "A channel was deleted while publishing.", next="Publish again."
            ) from None
        except BrokerUnavailable:
            self._delays.forget()
            self._catalog.doubt()
            raise

    def _route(self, message: Message, partitions: int, delayed: str | None) -> tuple[str, str]:
        partitioner = self._partitioners.get(message.channel)
        if partitioner is None:
            partitioner = self._partitioners[message.channel] = Partitioner(message.channel)
        partition = partitioner.choose(message, partitions)
        if delayed is not None:
            return delayed, names.stream(message.channel, partition)
        return message.channel, str(partition)

    async def _send(self, pipe: Pipe, messages: Sequence[Message], routes: Sequence[tuple[str, str]]) -> None:
        now, number, frame_max = int(time.time() * 1000), pipe.number, pipe.frame_max
        frames_of = wire.frames_of
        confirmations = []
        with translated():
            async with asyncio.timeout(self._link.options.timeout):
                for start, end in _batches(len(messages)):
                    frames = b"".join(
                        frames_of(number, *route, message, now, frame_max)
                        for message, route in zip(messages[start:end], routes[start:end], strict=True)
                    )
                    done = await pipe.send(frames, end - start, set(routes[start:end]))
                    self._unconfirmed.add(done)
                    done.add_done_callback(self._unconfirmed.discard)
                    confirmations.append(done)
                    if end < len(messages):
                        await asyncio.sleep(0)
                for done in confirmations:
                    await asyncio.shield(done)

    async def _open_pipe(self) -> Pipe:
        pipe = self._pipe
        if pipe is not None and not pipe.is_closed:
            return pipe
        async with self._opening:
            if self._pipe is None or self._pipe.is_closed:
                self._pipe = await self._link.pipe(confirms=True, patience=self._link.options.timeout)
            return self._pipe

    async def close(self) -> None:
        """What other tasks are publishing just now is out before this returns."""
        if self._unconfirmed:
            await asyncio.wait(tuple(self._unconfirmed), timeout=self._link.options.timeout)
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with contextlib.suppress(Exception):
                await discard(pipe)


def _batches(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BATCH, count)) for start in range(0, count, BATCH))
