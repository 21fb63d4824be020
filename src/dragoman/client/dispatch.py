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
from dragoman.client.lane import Direct, Reading
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome, again
from dragoman.client.path import Path, Plan, Take
from dragoman.client.pausing import Pauses
from dragoman.client.stages import is_part
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
    plan: Plan
    bound: Bound | None
    read_key: Callable[[bytes | None], Any] | None

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
        self._paths: dict[bytes | None, Path] = {}
        """By the header of the frame."""
        self._learning = asyncio.Lock()
        self._raw = next((each for each in candidates if each.raw), None)
        self._every: Path | None = None
        """The path of all messages, if an endpoint wants them as they came."""
        self._part: Take = self.take

    def taking(self, part: Take) -> Take:
        """The function that takes all messages; those that are parts of a sequence go to ``part``."""
        self._part = part
        if self._raw is not None:
            self._every = self._path_to(self._raw, lambda frame: frame, None)
        find, largest, every, whole = self._paths.get, self._largest, self._every, self.take

        def take(message: Message) -> Awaitable[Outcome]:
            payload = message.payload
            if payload is not None and len(payload) <= largest:
                path = every or find(payload[:HEADER_SIZE])
                if path is not None and path.learn_key is None:
                    return path.take(message)
            return whole(message)

        return take

    def direct(self) -> Direct:
        """Without a function of ours between, for messages that are nothing but a value to their endpoint."""
        find, largest = self._paths.get, self._largest

        def read(run: Run, places: Sequence[int]) -> Reading | None:
            first: Any = run.payloads[places[0]]
            schema = first[:HEADER_SIZE]
            path = find(schema)
            if path is None or path.function is None:
                return None
            frames: list[Any] = [run.payloads[at] for at in places]
            alike = len(list(takewhile(bool, map(bytes.startswith, frames, repeat(schema)))))
            if alike < len(frames):
                frames = frames[:alike]
            if max(map(len, frames)) > largest:
                return None
            values: list[Any] = []
            # Those before one that cannot be read are there nonetheless.
            with contextlib.suppress(MessageError):
                values.extend(map(path.route.decode, frames))
            return (path.function, values) if values else None

        return Direct(read, self._failed)

    def _failed(self, message: Message, error: Exception) -> Awaitable[Outcome]:
        return self._paths[(message.payload or b"")[:HEADER_SIZE]].failed(message, error)

    async def take(self, message: Message) -> Outcome:
        """A message whose path may still have to be found."""
        if is_part(message):
            return await self._part(message)
        if message.payload is None and message.header(SETTLED) is not None:
            self._counters.ignored += 1
            return DONE
        try:
            if message.payload is not None and len(message.payload) > self._largest:
                unframe(message.payload, self._largest)
            path = self._every or await self._path(message)
            if path.learn_key is not None:
                await path.learn_key(message.key)
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
        return await path.take(message)

    async def _path(self, message: Message) -> Path:
        schema = None if message.payload is None else message.payload[:HEADER_SIZE]
        path = self._paths.get(schema)
        if path is None:
            async with self._learning:
                path = self._paths.get(schema)
                if path is None:
                    path = self._paths[schema] = await self._learn(message.payload)
        return path

    async def _learn(self, frame: bytes | None) -> Path:
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
        return self._path_to(candidate, decode, version)

    def _path_to(
        self, candidate: Candidate, decode: Callable[[Any], Any], version: ContractVersion | None
    ) -> Path:
        route = Route(
            candidate.endpoint.name,
            self._group,
            decode,
            version,
            candidate.read_key,
            self._pauses,
            self._by_position,
        )
        return candidate.plan.path(route, self._part)

    def _tombstone(self) -> Path:
        for candidate in self._candidates:
            if candidate.endpoint.payload.optional:
                return self._path_to(candidate, lambda frame: None, None)
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
        route = Route("", self._group, lambda frame: frame)
        return Delivery(message, route)


def promised(strategy: Compatibility, writer: int, reader: int) -> bool:
    """Whether the strategy lets this version read what that one wrote."""
    if writer == reader:
        return True
    return strategy.backward if reader > writer else strategy.forward
