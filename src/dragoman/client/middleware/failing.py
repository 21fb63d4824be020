"""Other ends for messages whose handler fails for good: skipped, held while work stops, or the user's own."""

from __future__ import annotations

import inspect
import logging

from dragoman.client.burial import code_of
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.options import FailureHandler
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome
from dragoman.core.errors import ClientError

log = logging.getLogger("dragoman.client")


def skip(counters: ChannelMetrics) -> Middleware:
    """Record it in the log and the numbers, and go on."""

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            counters.skipped += 1
            log.error(
                "A message could not be handled and is skipped.",
                exc_info=error,
                extra=delivery.place() | {"error_code": code_of(error)},
            )
            return DONE

    return handle


def stop() -> Middleware:
    """Keep it unacknowledged, and have the group's work in this client end."""

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            log.critical(
                "A message could not be handled, so nothing more is.",
                exc_info=error,
                extra=delivery.place() | {"error_code": code_of(error)},
            )
            return Outcome(acknowledge=False, stop=error)

    return handle


def custom(strategy: FailureHandler, counters: ChannelMetrics) -> Middleware:
    """The user's own. What it acknowledges is skipped.

    If it fails itself, that error goes on, and the message stays unacknowledged.
    """
    name = getattr(strategy, "__qualname__", type(strategy).__qualname__)

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            delivery.failure = error
            found = strategy(delivery, error)
            outcome = await found if inspect.isawaitable(found) else found
            if not isinstance(outcome, Outcome):
                raise ClientError(
                    f"The strategy {name} gave {type(outcome).__name__}, not an outcome.",
                    code="client.strategy",
                    next="Return DONE or again(delay), both of dragoman.client.outcome.",
                ) from error
            counters.skipped += outcome.acknowledge
            return outcome

    return handle
