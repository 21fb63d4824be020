"""Middleware and endpoint become one handler, once, at start-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from dragoman.client.cancellation import as_failure, contain
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.errors import ClientError

log = logging.getLogger("dragoman.client")


def compose(middleware: Sequence[Middleware], endpoint: Handler) -> Handler:
    """The first one is the outermost."""
    handler = endpoint
    for each in reversed(middleware):
        handler = _around(each, handler)
    return handler


def _around(middleware: Middleware, inside: Handler) -> Handler:
    return lambda delivery: middleware(delivery, inside)


def after_failure(
    layers: Sequence[Middleware], next: Handler
) -> Callable[[Delivery, Exception], Awaitable[Outcome]]:
    """What the layers do with a delivery once the handler inside them has raised this."""

    def handle(delivery: Delivery, error: Exception) -> Awaitable[Outcome]:
        return compose(layers, _failing_first(error, next))(delivery)

    return handle


def _failing_first(error: Exception, next: Handler) -> Handler:
    errors = [error]

    async def handle(delivery: Delivery) -> Outcome:
        if errors:
            raise errors.pop()
        return await next(delivery)

    return handle


def contained(handler: Handler) -> Handler:
    """Only outcomes and exceptions of the class ``Exception`` come out, in whatever way the handler ends.

    What is around it (retries, dead letters) relies on that.
    """

    async def handle(delivery: Delivery) -> Outcome:
        outcome = await contain(handler, delivery)
        assert outcome is not None
        return outcome

    return handle


def guarded(middleware: Middleware) -> Middleware:
    """A user's middleware whose own errors are told apart from those of the handler inside it.

    One that says of itself that it needs no guard is left as it is.
    """
    if getattr(middleware, "guarded", True) is False:
        return middleware
    name = getattr(middleware, "__qualname__", type(middleware).__qualname__)

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        async def inside(given: Delivery) -> Outcome:
            try:
                return await next(given)
            except Exception as error:
                delivery.failure = error
                raise

        try:
            outcome = await middleware(delivery, inside)
        except asyncio.CancelledError as error:
            raise as_failure(error) from error
        except Exception as error:
            if error is delivery.failure:
                raise
            log.exception("A middleware failed.", extra=delivery.place() | {"middleware": name})
            raise ClientError(
                f"The middleware {name} failed: {type(error).__name__}.",
                code="client.middleware",
                next="Correct it; the handler may or may not have run.",
            ) from error
        if isinstance(outcome, Outcome):
            return outcome
        raise ClientError(
            f"The middleware {name} gave {type(outcome).__name__}, not an outcome.",
            code="client.middleware",
            next="Return what the next handler returns.",
        )

    return handle
