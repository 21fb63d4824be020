"""Requests: sent with a return address, and each reply handed to the one who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from typing import Any, TypeVar

from dragoman.client.consumer import Consumer, Pace
from dragoman.client.contracts import Contracts
from dragoman.client.headers import CORRELATION_ID, REPLY_TO, GivenHeaders, headers_of
from dragoman.client.lane import Intake
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome
from dragoman.client.pausing import Pauses
from dragoman.client.producer import Producer
from dragoman.client.refusal import refused
from dragoman.core.broker import Broker, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerError, ClientError, DecodeError, IncompatibleSchema, ReplyTimeout
from dragoman.core.message import Message, header, with_headers
from dragoman.schema.framing import unframe

R = TypeVar("R")

log = logging.getLogger("dragoman.client")

RETENTION = 3600.0
"""Seconds that unread replies are kept, should this process die before it can remove their channel."""
WINDOW = 10_000


class Requester:
    """Sends requests and waits for their replies, on a channel that only this client reads.

    The channel is made with the first request and removed at ``close``.
    """

    def __init__(
        self, broker: Broker, contracts: Contracts, name: str, counters: ChannelMetrics, pauses: Pauses
    ) -> None:
        self.channel = f"{name}.replies.{secrets.token_hex(8)}"
        self._broker = broker
        self._contracts = contracts
        self._counters = counters
        self._pauses = pauses
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(1)
        self._consumer: Consumer | None = None
        self._opening = asyncio.Lock()

    async def request(
        self,
        producer: Producer[Any],
        value: object,
        reply: type[R],
        timeout: float,
        key: Any = None,
        headers: GivenHeaders | None = None,
    ) -> R:
        if self._consumer is None:
            await self._open()
        number = f"{self.channel[-16:]}-{next(self._numbers)}".encode()
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                address = ((CORRELATION_ID, number), (REPLY_TO, self.channel.encode()))
                pairs = with_headers(headers_of(headers), *address)
                await producer.publish(value, key=key, headers=pairs)
                answer = await waiting
        except TimeoutError as error:
            raise ReplyTimeout(
                f"Nobody answered within {timeout:g} seconds.",
                next="Does an endpoint with a return value run? Look at the dead letters of the channel.",
                channel=producer.channel,
            ) from error
        finally:
            del self._waiting[number]
        return await self._read(answer, reply)

    async def _read(self, answer: Message, reply: type[R]) -> R:
        failure = refused(answer)
        if failure is not None:
            raise failure
        if answer.payload is None:
            raise DecodeError("The reply has no payload.", code="message.tombstone")
        schema_id, payload = unframe(answer.payload)
        try:
            decode = await self._contracts.decoder(schema_id, reply)
        except IncompatibleSchema as error:
            raise DecodeError(
                f"The reply cannot be read as {reply.__qualname__}.",
                next="Ask for the class that the endpoint returns.",
                schema_id=schema_id,
            ) from error
        value: R = decode(payload)
        return value

    async def _open(self) -> None:
        async with self._opening:
            if self._consumer is not None:
                return
            await self._broker.create(Channel(self.channel, partitions=1, retention=RETENTION))
            consumer = Consumer(
                self._broker,
                Subscription((self.channel,), group=self.channel),
                {self.channel: Intake(self._on_reply, 1, self._counters)},
                Pace(WINDOW, drain_timeout=0.0),
                self._pauses,
            )
            await consumer.subscribe()
            consumer.start()
            self._consumer = consumer

    async def _on_reply(self, message: Message) -> Outcome:
        """Late replies and second ones find nobody who waits."""
        waiting = self._waiting.get(header(message.headers, CORRELATION_ID) or b"")
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        else:
            log.info("A reply came too late, or twice.", extra={"channel": message.channel})
        return DONE

    async def close(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(
                    ClientError("The client was closed before the reply came.", code="client.closed")
                )
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()
            with contextlib.suppress(BrokerError):
                await self._broker.delete(self.channel)
