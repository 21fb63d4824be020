"""Messages whose time has passed go to the dead letters, not to handlers."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from dragoman.client.burial import Bury
from dragoman.client.delivery import Delivery
from dragoman.client.headers import EXPIRES_AT
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.aside import put_aside
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.errors import MessageExpired
from dragoman.core.message import Headers, header


def expiry(
    channel: str | None, bury: Bury, counters: ChannelMetrics, now: Callable[[], float] = time.time
) -> Middleware:
    """Without a channel for them, expired messages are never acknowledged."""

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        headers = delivery.message.headers
        if not headers:
            return next(delivery)
        expires = expires_at(headers)
        if expires is None or expires > now() * 1000:
            return next(delivery)
        return expire(delivery, expires)

    async def expire(delivery: Delivery, expires: int) -> Outcome:
        error = MessageExpired("Its time had passed before it was handled.", expires_at=expires)
        outcome = await put_aside(delivery, error, channel, bury, "A message has expired", level=logging.INFO)
        counters.expired += outcome.acknowledge
        return outcome

    return handle


def expires_at(headers: Headers) -> int | None:
    """Milliseconds since the epoch."""
    value = header(headers, EXPIRES_AT)
    return None if value is None else moment_of(value)


def moment_of(value: bytes) -> int | None:
    """A header that is not a number does not count."""
    return int(value) if len(value) <= 19 and value.isdigit() else None
