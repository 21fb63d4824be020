"""Call a failing handler again, resting longer each time. The partition waits, so order holds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.options import RetryOptions
from dragoman.client.outcome import Handler, Middleware, Outcome, again
from dragoman.core.errors import ConfigurationError, MessageError, SchemaError

Pause = Callable[[float], Awaitable[bool]]
"""Rest so many seconds; ``False`` at once when the client is closing."""

HOPELESS = (MessageError, SchemaError, ConfigurationError)
"""A value that does not fit its schema will not fit the next time either."""


def worth_trying(options: RetryOptions, error: Exception) -> bool:
    return isinstance(error, options.only) and not isinstance(error, HOPELESS + options.never)


def retry(
    options: RetryOptions, pause: Pause, counters: ChannelMetrics, now: Callable[[], float] = time.time
) -> Middleware:
    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        while True:
            try:
                outcome = await next(delivery)
            except Exception as error:
                counters.failed += 1
                delivery.failure = error
                delivery.failed_at = delivery.failed_at or int(now() * 1000)
                if delivery.attempt >= options.attempts or not worth_trying(options, error):
                    raise
                if options.elapsed is not None and now() - delivery.failed_at / 1000 >= options.elapsed:
                    raise
            else:
                counters.handled += outcome.acknowledge * delivery.size
                return outcome
            if not await pause(options.pause(delivery.attempt)):
                return again()
            delivery.attempt += 1
            counters.retried += 1
            delivery.decode()

    return handle
