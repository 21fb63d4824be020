"""What a client has between entering and leaving it: its connections, consumers, producers and requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.client.assembly import Assembly
from dragoman.client.consumer import Consumer
from dragoman.client.contracts import Contracts
from dragoman.client.controller import Controller, bind
from dragoman.client.later import retry_group
from dragoman.client.options import ClientOptions
from dragoman.client.outcome import Middleware
from dragoman.client.parameters import Kind, Parameter
from dragoman.client.pausing import Pauses, clock_of
from dragoman.client.producer import Producer, no_record
from dragoman.client.requests import Requester
from dragoman.client.role import Role, Sending
from dragoman.client.startup import Checks
from dragoman.client.tracing import Tracing
from dragoman.client.transactional.outbox import Outbox
from dragoman.client.transactional.storage import Storage
from dragoman.core.broker import Broker, Lag
from dragoman.core.channel import Channel
from dragoman.core.database import Database
from dragoman.core.errors import BrokerError, ClientError, ConfigurationError, DragomanError
from dragoman.core.registry import Registry
from dragoman.schema.records import is_record

if TYPE_CHECKING:
    from dragoman.client.client import Client

log = logging.getLogger("dragoman.client")

T = TypeVar("T")


class Running:
    """What exists only between entering and leaving the client."""

    def __init__(self, client: Client, broker: Broker, registry: Registry, database: Database | None) -> None:
        self._tracing = Tracing(broker.url) if client.options.tracing else None
        self.broker = broker = broker if self._tracing is None else self._tracing.broker(broker)
        self.registry = registry
        self.closing = AsyncExitStack()
        self.consumers: list[Consumer] = []
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self._client = client
        self._pauses = Pauses(clock_of(broker))
        options = client.options
        owned = None if client.role is None else client.role.owned
        self._contracts = Contracts(registry, options, str(getattr(registry, "url", "")), owned)
        self._executor = ThreadPoolExecutor(options.threads, thread_name_prefix="dragoman-endpoint")
        self.producers: dict[tuple[str, type], Producer[Any]] = {}
        self.storage = None if database is None else Storage(database, broker, options.relay)
        self.requester = Requester(
            broker, self._contracts, options.name, client.metrics.replies, self._pauses
        )

    async def start(self, given: Sequence[object], middleware: tuple[Middleware, ...]) -> None:
        if self.storage is not None:
            await self.storage.start()
        await self._attach(given, middleware, self._client.options, all_there_is=True)

    async def open_poll(self, given: object) -> Sequence[Consumer]:
        """One message at a time: the others are for the other members of the group."""
        options = replace(self._client.options, window=1)
        return await self._attach([given], self._client.middleware, options)

    async def detach(self, consumers: Sequence[Consumer]) -> None:
        await asyncio.gather(*(each.stop() for each in consumers))
        self.consumers = [each for each in self.consumers if each not in consumers]

    async def lags(self) -> list[Lag]:
        if not self.broker.capabilities.lag:
            return []
        places = {(channel, each.group) for each in self.consumers for channel in each.channels}
        try:
            return [lag for channel, group in sorted(places) for lag in await self.broker.lag(channel, group)]
        except BrokerError as error:
            # The other numbers are wanted most when the broker is away.
            log.warning("The lag of the groups is not known.", extra={"error_code": error.code})
            return []

    def _halted(self, group: str, why: Exception) -> None:
        for each in self.consumers:
            if group in (each.group, retry_group(each.group)) or each.group == retry_group(group):
                each.halt()
        self.failure = self.failure or why
        self.ended.set()

    async def _attach(
        self,
        given: Sequence[object],
        middleware: tuple[Middleware, ...],
        options: ClientOptions,
        *,
        all_there_is: bool = False,
    ) -> list[Consumer]:
        """Check endpoints, join their groups, and begin to handle messages."""
        client = self._client
        checks = Checks(self.broker, self._contracts, options, self.storage is not None)
        controllers = []
        for each in given:
            try:
                controllers.append(bind(each, options))
            except DragomanError as error:
                checks.problem(getattr(each, "__qualname__", type(each).__qualname__), error)
        if client.role is not None:
            controllers = self._directed(client.role, controllers, checks, all_there_is)
        await checks.all(controllers)
        checks.finish()
        assembly = Assembly(
            self.broker,
            self._contracts,
            options,
            middleware,
            client.metrics,
            self._pauses,
            self._executor,
            self._tracing,
            self._halted,
        )
        endpoints = [each for one in controllers for each in await self._filled(one)]
        consumers = await assembly.consumers(endpoints)
        self.consumers += consumers
        try:
            for consumer in consumers:
                await consumer.subscribe()
        except BaseException:
            await self.detach(consumers)
            raise
        for consumer in consumers:
            consumer.start()
        return consumers

    def _directed(
        self, role: Role, controllers: Sequence[Controller], checks: Checks, all_there_is: bool
    ) -> list[Controller]:
        """The controllers as the model wants them, and every way in which they are not."""
        endpoints = [endpoint for each in controllers for endpoint in each.endpoints]
        said = [*role.disagreements(endpoints, self.broker.capabilities)]
        said += role.unhandled(endpoints) if all_there_is else ()
        for each in said:
            checks.problem("model", ConfigurationError(each, code="client.model"))
        return [replace(each, endpoints=tuple(map(role.directed, each.endpoints))) for each in controllers]

    async def _filled(self, controller: Controller) -> list[Any]:
        """Give the controller and its endpoints what they wish for."""
        for wish in controller.wishes:
            setattr(controller.instance, wish.name, await self._wish(wish))
        return [
            (
                endpoint,
                {
                    each.name: await self._wish(each)
                    for each in endpoint.parameters
                    if each.kind in (Kind.PRODUCER, Kind.CLIENT, Kind.OUTBOX, Kind.TRANSACTION)
                },
            )
            for endpoint in controller.endpoints
        ]

    async def _wish(self, wish: Parameter) -> object:
        if wish.kind is Kind.CLIENT:
            return self._client
        if wish.kind is Kind.TRANSACTION:
            return self.require_storage().database
        if wish.kind is Kind.OUTBOX:
            return await self.outbox(wish.channel, wish.types[0])
        return await self.producer(wish.channel, wish.types[0])

    def require_storage(self) -> Storage:
        if self.storage is None:
            raise ClientError(
                "The client has no database.",
                code="client.database",
                next="Give it one: Client(database='sqlite://app.db').",
            )
        return self.storage

    async def outbox(self, channel: str, cls: type[T]) -> Outbox[T]:
        storage = self.require_storage()
        await self.producer(channel, cls)
        return storage.outbox(
            channel, await self._contracts.bind(channel, cls, writes=True), self._sending(channel)
        )

    async def producer(self, channel: str, cls: type[T]) -> Producer[T]:
        found = self.producers.get((channel, cls))
        if found is not None:
            return found
        if not is_record(cls):
            raise no_record(channel, cls)
        client, sending = self._client, self._sending(channel)
        if client.options.auto_register_channels:
            await self.broker.create(Channel(channel, client.options.partitions))
        bound = await self._contracts.bind(channel, cls, writes=True)
        counters = client.metrics.of(channel)
        made: Producer[T] = Producer(channel, bound, self.broker, self._contracts, counters, sending)
        self.producers[channel, cls] = made
        return made

    def _sending(self, channel: str) -> Sending:
        """How the model, if there is one, wants messages sent to a channel."""
        role = self._client.role
        return Sending() if role is None else role.sending(channel)

    async def stop(self) -> None:
        self._pauses.end()
        await asyncio.gather(*(each.stop() for each in self.consumers))
        await self.requester.close()
        if self.storage is not None:
            await self.storage.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
