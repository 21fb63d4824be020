"""Read the message; what cannot be read goes to the invalid-message channel, with the reason."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from dragoman.client.burial import Bury, code_of
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, LONGEST_REST, Handler, Middleware, Outcome, again
from dragoman.core.errors import MessageError

log = logging.getLogger("dragoman.client")


def invalid(channel: str | None, bury: Bury, counters: ChannelMetrics) -> Middleware:
    reject = rejection(channel, bury, counters)

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        try:
            delivery.decode()
        except MessageError as error:
            return reject(delivery, error)
        return next(delivery)

    return handle


class rejection:
    """Send one message to the invalid-message channel. Without one it is never acknowledged."""

    def __init__(self, channel: str | None, bury: Bury, counters: ChannelMetrics) -> None:
        self._channel = channel
        self._bury = bury
        self._counters = counters

    async def __call__(self, delivery: Delivery, error: MessageError) -> Outcome:
        # The text of the error may quote the payload: it goes into the letter, not into the log.
        place = delivery.place() | {"invalid_channel": self._channel, "error_code": code_of(error)}
        if self._channel is None:
            log.error("A message cannot be read, and there is no channel for such.", extra=place)
            return again(LONGEST_REST)
        await self._bury(delivery, self._channel, error)
        self._counters.invalid += 1
        log.warning("A message cannot be read.", extra=place)
        return DONE
