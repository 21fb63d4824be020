"""An AMQP channel: deliveries and confirmations without a task or a future for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiormq
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from pamqp.commands import Basic

from dragoman.adapters.rabbitmq import wire
from dragoman.adapters.rabbitmq.errors import translate
from dragoman.core.ending import outlive_program
from dragoman.core.errors import BrokerUnavailable

UNLIMITED = 1 << 17
"""How large frames are where the server sets no limit."""

Sink = Callable[[int, Any, bytes], None]
"""Called in the reader's task with delivery tag, properties and body."""


class Connection(aiormq.Connection):
    """Its tasks read and write until it is closed."""

    def create_task(self, coro: Any) -> Any:
        return _outliving(super().create_task(coro))


def _outliving(task: Any) -> Any:
    outlive_program(task.task)
    return task


class Receipt:
    """The confirmations that one batch waits for."""

    __slots__ = ("_future", "_open", "routes")

    def __init__(self, future: asyncio.Future[None], count: int, routes: set[tuple[str, str]]) -> None:
        self._future = future
        self._open = count
        self.routes = routes

    def confirm(self) -> None:
        self._open -= 1
        if not self._open and not self._future.done():
            self._future.set_result(None)

    def fail(self, error: BaseException) -> None:
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()


class Pipe(Channel):
    """The driver's channel with its hooks for frames overridden.

    Nothing is confirmed that the server did not confirm: a refusal, a returned message and a channel that
    closes each fail the batches that wait.
    """

    def __init__(self, connection: Any, number: int, confirms: bool) -> None:
        super().__init__(connection, number, publisher_confirms=confirms)
        self.frame_max: int = connection.connection_tune.frame_max or UNLIMITED
        self._waiting: dict[int, Receipt] = {}
        self._sending = asyncio.Lock()
        self._sinks: dict[str, Sink] = {}
        self._ends: dict[str, Callable[[], None]] = {}
        self._closing.add_done_callback(self._closed)

    def create_task(self, coro: Any) -> Any:
        return _outliving(super().create_task(coro))

    async def send(self, frames: bytes, count: int, routes: set[tuple[str, str]]) -> asyncio.Future[None]:
        """Hand ``count`` messages to the connection; the future ends once the server has confirmed all."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        receipt = Receipt(future, count, routes)
        async with self._sending:
            if self.is_closed:
                raise self._why()
            await self.write_queue.put(ChannelFrame(payload=frames, should_close=False))
            # No other task has run since the frames were queued, so the numbers are in the order of sending.
            first = self.delivery_tag + 1
            self.delivery_tag += count
            for tag in range(first, first + count):
                self._waiting[tag] = receipt
        if self._closing.done():
            receipt.fail(self._why())
        return future

    async def consume(
        self,
        queue: str,
        sink: Sink,
        *,
        arguments: dict[str, Any] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Deliver to ``sink``; tell ``on_end`` when the server cancels it or the channel closes."""
        tag = f"dragoman.{self.number}.{len(self._sinks)}"
        self._sinks[tag] = sink
        if on_end is not None:
            self._ends[tag] = on_end
        frame = Basic.Consume(queue=queue, consumer_tag=tag, arguments=arguments)
        await self.rpc(frame)

    async def _on_deliver_frame(self, frame: Basic.Deliver) -> None:
        header: Any = await self._get_frame()
        message = await self._read_content(frame, header)
        sink = self._sinks.get(frame.consumer_tag or "")
        if sink is not None:
            sink(frame.delivery_tag or 0, header.properties, message.body)

    async def _on_confirm_frame(self, frame: Any) -> None:
        tag, waiting = frame.delivery_tag, self._waiting
        tags = [tag]
        if frame.multiple:
            tags = []
            for each in waiting:
                if each > tag:
                    break
                tags.append(each)
        refused = isinstance(frame, Basic.Nack)
        for each in tags:
            receipt = waiting.pop(each, None)
            if receipt is None:
                continue
            if refused:
                receipt.fail(
                    BrokerUnavailable("RabbitMQ did not accept a message.", next="Publish it again.")
                )
            receipt.confirm()

    async def _on_return_frame(self, frame: Basic.Return) -> None:
        """It does not say which batch it was: all that go the same way are in doubt."""
        header: Any = await self._get_frame()
        await self._read_content(frame, header)
        error = BrokerUnavailable(
            "RabbitMQ has no queue for a message.",
            next="The channel is being changed or deleted; publish it again.",
            exchange=frame.exchange,
            routing_key=frame.routing_key,
        )
        for receipt in set(self._waiting.values()):
            if (frame.exchange, frame.routing_key) in receipt.routes:
                receipt.fail(error)

    async def _on_cancel_frame(self, frame: Any) -> None:
        if isinstance(frame, Basic.Cancel):
            self._end(frame.consumer_tag or "")
            if self.connection.accept_consumer_cancel_ok:
                await super()._on_cancel_frame(frame)

    def _end(self, tag: str) -> None:
        self._sinks.pop(tag, None)
        on_end = self._ends.pop(tag, None)
        if on_end is not None:
            on_end()

    def _closed(self, _: Any) -> None:
        error = self._why()
        for receipt in set(self._waiting.values()):
            receipt.fail(error)
        self._waiting.clear()
        for tag in list(self._ends):
            self._end(tag)

    def _why(self) -> BaseException:
        reason = None if self._closing.cancelled() else self._closing.exception()
        if self._close_exception is not None:
            reason = self._close_exception
        return translate(reason or ConnectionError("closed"))

    async def bear(self, stream: str, arguments: dict[str, Any]) -> None:
        """Make a stream, with the record that each begins with."""
        await self.queue_declare(stream, durable=True, arguments=arguments)
        await (await self.send(wire.birth_frames(self.number, stream), 1, {("", stream)}))

    async def save(self, queue: str, body: bytes) -> None:
        """Put a record of ours into a queue, and wait until it is safe there."""
        frames = wire.plain_frames(self.number, queue, body, self.frame_max)
        await (await self.send(frames, 1, {("", queue)}))
