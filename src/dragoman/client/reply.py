"""Replies: what an endpoint returns, yields or declares to raise, sent before its request is acknowledged."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.client.contracts import Bound
from dragoman.client.correlation import Correlation
from dragoman.client.delivery import Delivery
from dragoman.client.headers import (
    CORRELATION_ID,
    MESSAGE_ID,
    RAISED,
    REPLY_END,
    REPLY_NUMBER,
    REPLY_TO,
    expiring,
)
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.pausing import clock_of
from dragoman.client.transactional.brokered import gather
from dragoman.client.transactional.identity import answer_id
from dragoman.core.broker import Broker
from dragoman.core.errors import ChannelNotFound, ConfigurationError, EncodeError
from dragoman.core.message import Headers, Message, header
from dragoman.schema.records import describe, is_record

log = logging.getLogger("dragoman.client")


@dataclass(frozen=True, slots=True)
class Answers:
    """How one endpoint answers.

    To the request's return address if it has one, else to ``channel``; to nobody without either.
    """

    broker: Broker
    channel: str | None
    bound: Bound | None
    """The class of its replies, if it has any."""
    raised: Mapping[type[Exception], Bound]
    """The errors that are answers."""
    correlation: Correlation | None
    counters: ChannelMetrics
    expires_in: float | None = None
    named: bool = False
    """Whether each answer has a message id."""

    async def reply(self, delivery: Delivery, value: Any, *more: tuple[str, bytes]) -> None:
        """Send one reply. ``more`` are headers beside the correlation."""
        if self.bound is None:
            return
        target, private = self._target(delivery)
        if target is None:
            return
        payload = self.bound.encode(value)
        pairs = self._correlated(delivery, value)
        await self._send(delivery, target, private, payload, (*pairs, *more) if more else pairs)

    def encode(self, delivery: Delivery, value: Any) -> bytes | None:
        """The frame of a reply that is sent later, by ``resend``; ``None`` if the endpoint has no reply."""
        if self.bound is None:
            return None
        self._correlated(delivery, value)
        return self.bound.encode(value)

    def encode_error(self, error: Exception) -> tuple[bytes, str]:
        """The frame of a declared error, and the name it goes by."""
        bound = next(self.raised[cls] for cls in type(error).__mro__ if cls in self.raised)
        return bound.encode(error), describe(bound.cls).names.full

    async def resend(self, delivery: Delivery, frame: bytes, raised: str | None = None) -> None:
        """Send an answer that was encoded before, maybe for an earlier delivery of the same request."""
        target, private = self._target(delivery)
        if target is not None:
            pairs = self._correlated(delivery, None)
            if raised is not None:
                pairs = (*pairs, (RAISED, raised.encode()))
            await self._send(delivery, target, private, frame, pairs)

    def wanted(self, delivery: Delivery) -> bool:
        """Whether there is anybody to be answered."""
        return self._target(delivery)[0] is not None

    def can_tell(self, delivery: Delivery) -> bool:
        """Whether the requester waits at an address of its own, where errors may be sent."""
        return self._target(delivery)[1]

    async def stream(self, delivery: Delivery, values: AsyncGenerator[Any, None]) -> None:
        """Send what an endpoint yields, numbered; behind the last one, the requester is told of the end."""
        number = 0
        try:
            async for value in values:
                await self.reply(delivery, value, (REPLY_NUMBER, b"%d" % number))
                number += 1
        finally:
            await values.aclose()
        target, private = self._target(delivery)
        if target is not None and private:
            pairs = (*self._correlated(delivery, None), (REPLY_END, b"%d" % number))
            await self._send(delivery, target, private, None, pairs)

    async def error(self, delivery: Delivery, error: Exception) -> bool:
        """Send a declared error. ``False`` if there is nobody to be told: then it is a failure."""
        if not self.can_tell(delivery):
            return False
        await self.resend(delivery, *self.encode_error(error))
        return True

    def _target(self, delivery: Delivery) -> tuple[str | None, bool]:
        """Where answers go, and whether that is an address of the requester's own."""
        headers = delivery.message.headers
        address = header(headers, REPLY_TO) if headers else None
        return (self.channel, False) if address is None else (_name(address), True)

    def _correlated(self, delivery: Delivery, value: Any) -> Headers:
        headers, place = delivery.message.headers, self.correlation
        given = header(headers, CORRELATION_ID) if headers else None
        pairs = () if given is None else ((CORRELATION_ID, given),)
        if place is None:
            return pairs
        if place.part == "header":
            found = place.in_headers(headers)
            return pairs if found is None else (*pairs, (place.header, found))
        found = place.in_value(delivery.value)
        if value is not None and place.in_value(value) != found:
            raise EncodeError(
                f"The reply does not have at {place} what its request has there.",
                code="message.correlation",
                next="Copy it from the request, or correlate by a header.",
            )
        return pairs if found is None or given is not None else ((CORRELATION_ID, found),)

    async def _send(
        self, delivery: Delivery, target: str, private: bool, payload: bytes | None, pairs: Headers
    ) -> None:
        try:
            message = Message(target, payload, delivery.message.key, pairs)
            if self.named and message.header(MESSAGE_ID) is None:
                # Before the expiry, which differs when the answer is sent again.
                pairs = (*pairs, (MESSAGE_ID, answer_id(delivery, message)))
                message = message._replace(headers=pairs)
            if self.expires_in is not None:
                expiry = expiring(clock_of(self.broker).now() + self.expires_in)
                message = message._replace(headers=(*pairs, expiry))
            if not gather((message,)):
                await self.broker.publish((message,))
        except ChannelNotFound:
            if not private:
                raise
            # Whoever asked has left, and has taken the return address along. The work is done all the same.
            log.info("Nobody waits for a reply any more.", extra=delivery.place() | {"reply_to": target})
        else:
            self.counters.replied += 1


def check_undeclared(message: Message, result: object) -> None:
    """Somebody waits for a reply, and the endpoint has one, but has not said so: it would never be sent."""
    if is_record(type(result)) and header(message.headers, REPLY_TO) is not None:
        raise ConfigurationError(
            f"The endpoint returns {type(result).__qualname__}, but is not annotated with it.",
            code="configuration.reply",
            next="Annotate the return value: without it there is no contract for the reply.",
        )


def _name(address: bytes) -> str:
    try:
        return address.decode()
    except UnicodeDecodeError as error:
        raise EncodeError("The return address is not text.", code="message.reply-to") from error
