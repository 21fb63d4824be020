"""Handlers that take too long are ended, and have failed."""

from __future__ import annotations

import asyncio

from dragoman.client.arguments import at_least
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.errors import ClientError, ConfigurationError


def timeout(seconds: float) -> Middleware:
    """For each call of the handler. A plain ``def`` runs on in its thread: nothing can end it."""
    at_least("seconds", seconds, 0)
    if not seconds > 0:
        raise ConfigurationError(f"A handler cannot finish in {seconds:g} seconds.", next="Use more than 0.")

    async def limit(delivery: Delivery, next: Handler) -> Outcome:
        try:
            async with asyncio.timeout(seconds) as timer:
                return await next(delivery)
        except TimeoutError:
            if not timer.expired():
                raise
        delivery.failure = ClientError(
            f"The handler took longer than {seconds:g} seconds.",
            code="client.handler-timeout",
            next="Give it more time, or find out what it waits for.",
        )
        raise delivery.failure

    return limit
