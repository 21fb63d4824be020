"""The client: broker, registry and controllers, brought together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Self, TypeVar

from dragoman.client.arguments import at_least, layers, require, several
from dragoman.client.connecting import open_broker, open_database, open_registry
from dragoman.client.correlation import read_correlation
from dragoman.client.exposition import exposition
from dragoman.client.headers import GivenHeaders
from dragoman.client.metrics import Metrics
from dragoman.client.options import ClientOptions, EndpointOptions
from dragoman.client.outcome import Middleware
from dragoman.client.poll import Poll, Source
from dragoman.client.producer import Producer, require_record
from dragoman.client.requests import Question
from dragoman.client.role import open_role
from dragoman.client.running import Running
from dragoman.client.sequence.parts import PART
from dragoman.client.transactional.outbox import Outbox
from dragoman.core.broker import Broker
from dragoman.core.database import Database
from dragoman.core.errors import ClientClosed, ClientError
from dragoman.core.message import Position
from dragoman.core.registry import Registry

T = TypeVar("T")
R = TypeVar("R")


class Client:
    """Typed messages over one broker, under the contracts of one registry.

        async with Client(controllers=[LoanBroker]) as client:
            await client.publish("loan.requests", LoanRequest(1, 10_000.0, 24))

    ``broker`` and ``registry`` are URLs, or opened ones that may be shared between clients. Without them both
    are embedded under ``./.dragoman``, shared by all processes that run there, unless ``DRAGOMAN_BROKER`` and
    ``DRAGOMAN_REGISTRY`` say otherwise. ``controllers`` are controller classes, instances of them, or
    endpoint functions. ``database`` is the application's own, for the outbox and for endpoints that are given
    a transaction. Entering checks everything the endpoints need and raises one ``StartupError`` that names
    all problems; leaving lets running handlers finish.
    """

    def __init__(
        self,
        broker: str | Broker | None = None,
        registry: str | Registry | None = None,
        controllers: Iterable[object] = (),
        *,
        database: str | Database | None = None,
        options: ClientOptions | None = None,
        middleware: Sequence[Middleware] = (),
        model: str | Path | None = None,
        as_: str | None = None,
    ) -> None:
        self.role = open_role(model, as_)
        self._database = database
        require("The options of a client", options, ClientOptions, NoneType)
        self.options = options or ClientOptions()
        self.metrics = Metrics()
        self._broker = broker
        self._registry = registry
        self._controllers = several("controllers", controllers)
        self.middleware = layers(middleware)
        self._running: Running | None = None

    @property
    def broker(self) -> Broker:
        return self._run.broker

    @property
    def database(self) -> Database:
        """The application's database. Raises ``ClientError`` if the client was given none."""
        return self._run.require_storage().database

    @property
    def registry(self) -> Registry:
        return self._run.registry

    async def __aenter__(self) -> Self:
        if self._running is not None:
            raise ClientError("The client is running already.", code="client.running")
        async with AsyncExitStack() as stack:
            named = self.role.broker() if self.role is not None and self._broker is None else None
            broker, made = open_broker(self._broker or named)
            if made:
                stack.push_async_callback(broker.close)
                await broker.connect()
            registry, made = open_registry(self._registry)
            if made:
                stack.push_async_callback(registry.close)
            database, made = open_database(self._database)
            if made and database is not None:
                stack.callback(database.close)
            self._running = running = Running(self, broker, registry, database)
            # In this order: handlers that are still at work may go on using the client.
            stack.callback(self._forget)
            stack.push_async_callback(running.stop)
            await running.start(self._controllers, self.middleware)
            running.closing = stack.pop_all()
        return self

    def _forget(self) -> None:
        self._running = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._running is not None:
            await self._running.closing.aclose()

    async def publish(
        self,
        channel: str,
        value: object,
        *,
        key: Any = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        delay: float = 0.0,
        expires_in: float | None = None,
    ) -> Position | None:
        """Publish a record, under the contract of the channel. See ``Producer.publish``."""
        producer: Producer[Any] = self._run.producers.get((channel, type(value))) or await self.producer(
            channel, require_record(channel, value)
        )
        return await producer.publish(
            value, key=key, headers=headers, partition=partition, delay=delay, expires_in=expires_in
        )

    async def publish_many(
        self,
        channel: str,
        values: Iterable[T],
        *,
        key: Callable[[T], Any] | None = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        delay: float = 0.0,
    ) -> Sequence[Position | None]:
        """Publish records of one class in order and in one go. See ``Producer.publish_many``."""
        values = several("values", values)
        if not values:
            return []
        producer: Producer[T] = await self.producer(channel, require_record(channel, values[0]))
        return await producer.publish_many(values, key=key, headers=headers, partition=partition, delay=delay)

    async def publish_in_parts(
        self,
        channel: str,
        value: object,
        *,
        key: Any = None,
        headers: GivenHeaders | None = None,
        part_size: int = PART,
    ) -> Sequence[Position | None]:
        """Publish a record that is too large for one message. See ``Producer.publish_in_parts``."""
        producer: Producer[Any] = await self.producer(channel, require_record(channel, value))
        return await producer.publish_in_parts(value, key=key, headers=headers, part_size=part_size)

    async def producer(self, channel: str, cls: type[T]) -> Producer[T]:
        """A producer with its contract checked and its encoder compiled; made once, then given again.

        Raises ``NotFound``, ``IncompatibleSchema``, ``ChannelNotFound``.
        """
        return await self._run.producer(channel, cls)

    async def outbox(self, channel: str, cls: type[T]) -> Outbox[T]:
        """For messages that are published if, and only if, a transaction of the database is committed."""
        return await self._run.outbox(channel, cls)

    async def request(
        self,
        channel: str,
        value: object,
        *,
        reply: type[R],
        timeout: float | None = None,
        key: Any = None,
        headers: GivenHeaders | None = None,
        raises: Sequence[type[Exception]] = (),
        reply_to: str | None = None,
        correlation: str | None = None,
    ) -> R:
        """Publish a record and wait for the one that answers it. Many may be under way at once.

        The reply comes to a channel of this client's own. For endpoints that answer elsewhere whatever the
        return address, ``reply_to`` names that channel, and ``correlation`` where request and reply carry the
        same, such as ``$message.payload#/request_id``. ``raises`` are errors that the endpoint declares.

        Raises ``ReplyTimeout``; ``RemoteFailure`` if the request ended as a letter, or the endpoint raised an
        error that is not among ``raises``; ``ClientClosed`` if this client closes first; ``DecodeError`` if
        the answer cannot be read as ``reply``.
        """
        place = None if correlation is None else read_correlation(correlation)
        producer: Producer[Any] = self._run.producers.get((channel, type(value))) or await self.producer(
            channel, require_record(channel, value)
        )
        seconds = self._patience(timeout)
        return await self._run.requester.request(
            Question(producer, value, reply, seconds, key, headers, raises, place, reply_to)
        )

    async def request_stream(
        self,
        channel: str,
        value: object,
        *,
        reply: type[R],
        timeout: float | None = None,
        key: Any = None,
        headers: GivenHeaders | None = None,
        raises: Sequence[type[Exception]] = (),
    ) -> AsyncGenerator[R, None]:
        """Publish a record and get all that its endpoint yields, in order, each once.

            async for quote in client.request_stream("loan.requests", request, reply=Quote): ...

        ``timeout`` is how long to wait for each. Raises as ``request`` does.
        """
        producer: Producer[Any] = await self.producer(channel, require_record(channel, value))
        seconds = self._patience(timeout)
        question = Question(producer, value, reply, seconds, key, headers, raises)
        async with contextlib.aclosing(self._run.requester.stream(question)) as replies:
            async for each in replies:
                yield each

    def _patience(self, timeout: float | None) -> float:
        if timeout is None:
            return self.options.request_timeout
        at_least("timeout", timeout, 0)
        return timeout

    def poll(
        self,
        channel: str,
        cls: type[T],
        *,
        group: str | None = None,
        wait: float | None = None,
        limit: int | None = None,
        options: EndpointOptions | None = None,
    ) -> Poll[T]:
        """Take messages one after the other, when the program is ready for them.

            async with client.poll("loan.requests", LoanRequest, group="reports", wait=5.0) as requests:
                async for request in requests: ...

        A message is acknowledged when the next one is asked for, or when the block ends without an error;
        after an error it is delivered again. The loop ends when nothing came for ``wait`` seconds, or after
        ``limit`` messages; without them, never. ``async for request in client.poll(...)`` does without the
        block; a message at which such a loop is left is delivered again, since nobody can tell why it was.
        """
        return Poll(Source(channel, cls, group, options, wait, limit), self._run.open_poll, self._run.detach)

    @property
    def in_flight(self) -> int:
        """Messages received and not handled yet."""
        return 0 if self._running is None else sum(each.in_flight for each in self._running.consumers)

    async def exposition(self) -> str:
        """All numbers as Prometheus reads them, with the lag of this client's groups if the broker tells."""
        running = self._run
        flying: Counter[str] = Counter()
        oldest: dict[str, float] = {}
        for each in running.consumers:
            flying[each.group] += each.in_flight
            oldest[each.group] = max(oldest.get(each.group, 0.0), each.oldest_s)
        return exposition(self.metrics, flying, await running.lags(), self.options.name, oldest)

    async def run(self) -> None:
        """Handle messages until the process is asked to end by SIGINT or SIGTERM.

        Raises ``ClientError`` when an endpoint with the strategy ``stop`` has ended the work of its group.
        """
        running = self._run
        loop = asyncio.get_running_loop()
        ended = running.ended
        signals = (signal.SIGINT, signal.SIGTERM)
        for each in signals:
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(each, ended.set)
        try:
            await ended.wait()
        finally:
            for each in signals:
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(each)
        if running.failure is not None:
            raise ClientError(
                "An endpoint has stopped its group, since a message could not be handled.",
                code="client.stopped",
                next="Cure the cause and start again: the message is delivered again.",
            ) from running.failure

    @property
    def _run(self) -> Running:
        if self._running is None:
            raise ClientClosed(
                "The client is not running.", code="client.not-running", next="Use it in 'async with'."
            )
        return self._running
