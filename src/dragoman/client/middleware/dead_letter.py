"""Messages whose handler fails for good go to the dead-letter channel, with the cause."""

from __future__ import annotations

import logging

from dragoman.client.burial import Bury, code_of
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.options import RetryOptions
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome, again
from dragoman.core.errors import Refused

log = logging.getLogger("dragoman.client")


def dead_letter(channel: str, bury: Bury, counters: ChannelMetrics) -> Middleware:
    """If the letter cannot be sent, that error goes on, and the message stays unacknowledged."""

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            await bury(delivery, channel, error)
            counters.dead += 1
            told = delivery.place() | {"dead_letter_channel": channel, "error_code": code_of(error)}
            if isinstance(error, Refused):
                # A decision about the message: where it was taken tells nothing.
                log.error("A message is now a dead letter.", extra=told | {"reason": str(error)})
            else:
                log.error("A message is now a dead letter.", exc_info=error, extra=told)
            return DONE

    return handle


def keep(options: RetryOptions, counters: ChannelMetrics) -> Middleware:
    """Without a dead-letter channel: the broker delivers the message again, later and later."""

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            log.error(
                "A message could not be handled and is delivered again.",
                exc_info=error,
                extra=delivery.place() | {"error_code": code_of(error)},
            )
            return again(options.pause(options.attempts + delivery.message.attempt))

    return handle
