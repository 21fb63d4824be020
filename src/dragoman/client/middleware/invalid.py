"""Read the message; what cannot be read goes to the invalid-message channel, with the reason."""

from __future__ import annotations

from collections.abc import Awaitable

from dragoman.client.burial import Bury
from dragoman.client.cancellation import unreadable
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.aside import put_aside
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.errors import MessageError


def invalid(channel: str | None, bury: Bury, counters: ChannelMetrics) -> Middleware:
    reject = rejection(channel, bury, counters)

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        try:
            delivery.decode()
        except BaseException as error:
            return reject(delivery, unreadable(error))
        return next(delivery)

    return handle


class rejection:
    """Send one message to the invalid-message channel. Without one it is never acknowledged."""

    def __init__(self, channel: str | None, bury: Bury, counters: ChannelMetrics) -> None:
        self._channel = channel
        self._bury = bury
        self._counters = counters

    async def __call__(self, delivery: Delivery, error: MessageError) -> Outcome:
        outcome = await put_aside(
            delivery,
            error,
            self._channel,
            self._bury,
            "A message cannot be read",
            invalid_channel=self._channel,
        )
        self._counters.invalid += outcome.acknowledge
        return outcome
