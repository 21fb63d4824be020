"""Messages that the broker has delivered too often are not tried any more."""

from __future__ import annotations

from collections.abc import Awaitable

from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.errors import ClientError


def deliveries(most: int) -> Middleware:
    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        if delivery.message.attempt > most:
            raise ClientError(
                f"The broker delivered the message {delivery.message.attempt} times,"
                " and it was never finished.",
                code="client.too-many-deliveries",
                next="Does handling it end the process? Replay it once that is cured.",
            )
        return next(delivery)

    return handle
