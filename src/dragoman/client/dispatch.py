"""Which endpoint takes a message: the one of exactly its contract version, or the newest compatible one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import Any

from dragoman.client.burial import code_of
from dragoman.client.contracts import Bound, Contracts
from dragoman.client.delivery import Delivery, Route
from dragoman.client.endpoint import Endpoint
from dragoman.client.headers import SETTLED
from dragoman.client.keyreading import KeyReader
from dragoman.client.lane import Direct, Reading
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Handler, Outcome, again
from dragoman.client.pausing import Pauses
from dragoman.client.straight import Straight, Take
from dragoman.core.contract import Compatibility, ContractVersion
from dragoman.core.errors import (
    DecodeError,
    DragomanError,
    IncompatibleSchema,
    MessageError,
    NoEndpoint,
    RegistryError,
)
from dragoman.core.message import Message
from dragoman.core.run import Run
from dragoman.schema.framing import HEADER_SIZE, unframe

log = logging.getLogger("dragoman.client")

REST = 2.0
"""Seconds until a message comes again whose schema could not be asked for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An endpoint with one of the classes that it takes. Without a class it takes every version."""

    endpoint: Endpoint
    handle: Handler
    bound: Bound | None
    read_key: Callable[[bytes | None], Any] | None
    straight: Straight | None = None

    @property
    def raw(self) -> bool:
        """Whether it wants the frame as it came."""
        return self.endpoint.payload.types == (bytes,)


@dataclass(frozen=True, slots=True)
class Failures:
    """What becomes of messages that reach no endpoint."""

    invalid: Callable[[Delivery, MessageError], Awaitable[Outcome]]
    unroutable: Callable[[Delivery, Exception], Awaitable[Outcome]]


class Dispatcher:
    """All endpoints of one group on one channel."""

    def __init__(
        self,
        channel: str,
        group: str,
        candidates: Sequence[Candidate],
        contracts: Contracts,
        failures: Failures,
        pauses: Pauses,
        by_position: bool,
        counters: ChannelMetrics,
    ) -> None:
        self._channel = channel
        self._group = group
        self._contracts = contracts
        self._failures = failures
        self._pauses = pauses
        self._by_position = by_position
        self._counters = counters
        self._largest = contracts.largest_message
        # The newest version is asked first; endpoints that take every version come last.
        self._candidates = sorted(
            candidates, key=lambda each: each.bound.version.version if each.bound else 0, reverse=True
        )
        self._routes: dict[bytes | None, Route] = {}
        self._ways: dict[bytes, Take] = {}
        self._direct: dict[bytes, tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]] = {}
        self._after_failure: dict[bytes, Callable[[Message, Exception], Awaitable[Outcome]]] = {}
        self._learning = asyncio.Lock()
        raw = next((each for each in candidates if each.raw), None)
        self._raw = None if raw is None else self._made(raw, lambda frame: frame, None)
        self._raw_straight = None if raw is None else raw.straight
        self._otherwise: Take | None = None

    def straight(self, otherwise: Take) -> Take:
        """The hot path: one look at the frame's header, then the short way of that schema, if it has one."""
        find, largest = self._ways.get, self._largest
        self._otherwise = otherwise
        every = None
        if self._raw is not None and self._raw_straight is not None:
            every = self._raw_straight.way(self._raw, otherwise)

        def take(message: Message) -> Awaitable[Outcome]:
            payload = message.payload
            if payload is None or len(payload) > largest:
                return otherwise(message)
            way = every or find(payload[:HEADER_SIZE])
            return otherwise(message) if way is None else way(message)

        return take

    def direct(self) -> Direct:
        """Shorter still, for messages that are nothing but a value to an endpoint that wants nothing else."""
        find, largest = self._direct.get, self._largest

        def read(run: Run, places: Sequence[int]) -> Reading | None:
            first: Any = run.payloads[places[0]]
            header = first[:HEADER_SIZE]
            found = find(header)
            if found is None:
                return None
            decode, function = found
            frames: list[Any] = [run.payloads[at] for at in places]
            alike = len(list(takewhile(bool, map(bytes.startswith, frames, repeat(header)))))
            if alike < len(frames):
                frames = frames[:alike]
            if max(map(len, frames)) > largest:
                return None
            values: list[Any] = []
            # Those before one that cannot be read are there nonetheless.
            with contextlib.suppress(MessageError):
                values.extend(map(decode, frames))
            return (function, values) if values else None

        return Direct(read, self._failed)

    def _failed(self, message: Message, error: Exception) -> Awaitable[Outcome]:
        return self._after_failure[(message.payload or b"")[:HEADER_SIZE]](message, error)

    def handle(self, message: Message) -> Awaitable[Outcome]:
        """The same for those that go the long way."""
        payload = message.payload
        if payload is None or len(payload) > self._largest:
            return self._handle(message)
        route = self._raw or self._routes.get(payload[:HEADER_SIZE])
        if route is None or route.learn_key is not None:
            return self._handle(message)
        return route.handle(Delivery(message, route))

    async def _handle(self, message: Message) -> Outcome:
        if message.payload is None and message.header(SETTLED) is not None:
            self._counters.ignored += 1
            return DONE
        try:
            if message.payload is not None and len(message.payload) > self._largest:
                unframe(message.payload, self._largest)
            route = self._raw or await self._route(message)
            if route.learn_key is not None:
                await route.learn_key(message.key)
        except MessageError as error:
            return await self._failures.invalid(self._lost(message), error)
        except RegistryError as error:
            log.warning(
                "The schema of a message could not be asked for, it is delivered again.",
                extra={"channel": message.channel, "error_code": code_of(error)},
            )
            return again(REST)
        except DragomanError as error:
            return await self._failures.unroutable(self._lost(message), error)
        return await route.handle(Delivery(message, route))

    async def _route(self, message: Message) -> Route:
        header = None if message.payload is None else message.payload[:HEADER_SIZE]
        route = self._routes.get(header)
        if route is None:
            async with self._learning:
                route = self._routes.get(header)
                if route is None:
                    route = self._routes[header] = await self._learn(message.payload)
        return route

    async def _learn(self, frame: bytes | None) -> Route:
        if frame is None:
            return self._tombstone()
        schema_id, _ = unframe(frame)
        candidate, version = await self._choose(schema_id)
        cls = candidate.bound.cls if candidate.bound else None
        known = None
        if candidate.bound is not None:
            own = await self._contracts.own_schema(candidate.bound, schema_id)
            known = own or candidate.bound.known
        decode = await self._contracts.frame_decoder(schema_id, cls, known)
        route = self._made(candidate, decode, version)
        if candidate.straight is not None and self._otherwise is not None:
            self._shorten(frame[:HEADER_SIZE], candidate.straight, route, self._otherwise)
        return route

    def _shorten(self, header: bytes, straight: Straight, route: Route, otherwise: Take) -> None:
        self._ways[header] = straight.way(route, otherwise)
        if straight.direct is not None:
            self._direct[header] = route.decode, straight.direct
            self._after_failure[header] = straight.after_failure(route)

    def _made(
        self, candidate: Candidate, decode: Callable[[Any], Any], version: ContractVersion | None
    ) -> Route:
        endpoint = candidate.endpoint
        learn = candidate.read_key.learn if isinstance(candidate.read_key, KeyReader) else None
        return Route(
            endpoint.name,
            self._group,
            decode,
            candidate.handle,
            version,
            candidate.read_key,
            learn,
            self._pauses,
            self._by_position,
        )

    def _tombstone(self) -> Route:
        for candidate in self._candidates:
            if candidate.endpoint.payload.optional:
                return self._made(candidate, lambda frame: None, None)
        raise DecodeError(
            "The message has no payload.",
            code="message.tombstone",
            next="An endpoint that takes tombstones annotates its payload as X | None.",
            channel=self._channel,
        )

    async def _choose(self, schema_id: int) -> tuple[Candidate, ContractVersion | None]:
        """Exactly this version, else by the contract's strategy, newest first, else any."""
        for candidate in self._candidates:
            if candidate.bound and candidate.bound.schema_id == schema_id:
                return candidate, candidate.bound.version
        await self._contracts.known(schema_id)
        for candidate in self._candidates:
            if candidate.bound and await self._contracts.own_schema(candidate.bound, schema_id):
                contract = candidate.bound.version.contract
                return candidate, await self._contracts.version_in(contract, schema_id)
        version = None
        for candidate in self._candidates:
            if candidate.bound is None:
                return candidate, await self._contracts.version_on(self._channel, schema_id)
            contract = candidate.bound.version.contract
            version = await self._contracts.version_in(contract, schema_id)
            if version is not None and await self._can_take(candidate.bound, version, schema_id):
                return candidate, version
        raise NoEndpoint(
            f"No endpoint of the group takes the schema {schema_id}"
            + (f", version {version.version} of {version.contract}." if version else "."),
            next="Add an endpoint for it, or a version of the contract that can read it.",
            channel=self._channel,
            group=self._group,
        )

    async def _can_take(self, bound: Bound, writer: ContractVersion, schema_id: int) -> bool:
        strategy = await self._contracts.compatibility(writer.contract)
        if not promised(strategy, writer.version, bound.version.version):
            return False
        try:
            await self._contracts.decoder(schema_id, bound.cls, bound.known)
        except IncompatibleSchema:
            return False
        return True

    async def refuse(self, message: Message, error: MessageError) -> Outcome:
        """A message that cannot reach any endpoint is a failure like others."""
        return await self._failures.unroutable(self._lost(message), error)

    def _lost(self, message: Message) -> Delivery:
        """A delivery that has no endpoint, for its letter."""
        route = Route("", self._group, lambda frame: frame, _nowhere)
        return Delivery(message, route)


def promised(strategy: Compatibility, writer: int, reader: int) -> bool:
    """Whether the strategy lets this version read what that one wrote."""
    if writer == reader:
        return True
    return strategy.backward if reader > writer else strategy.forward


async def _nowhere(delivery: Delivery) -> Outcome:
    return again()
