"""Not more than so many messages a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from dragoman.client.arguments import at_least
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Outcome, again
from dragoman.core.errors import ConfigurationError


class Throttle:
    """Messages wait in place for their turn, so order holds. One object limits all endpoints it is given to.

    ``burst`` may go at once after a quiet time.
    """

    def __init__(self, rate: float, burst: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        at_least("rate", rate, 0)
        at_least("burst", burst, 0, whole=True)
        if not rate > 0 or burst < 1:
            raise ConfigurationError(
                f"Nothing gets through at {rate:g} a second with bursts of {burst}.",
                next="Use a rate above 0 and a burst of 1 or more.",
            )
        self._interval = 1.0 / rate
        self._tolerance = (burst - 1) * self._interval
        self._clock = clock
        self._due = 0.0

    def wait(self, messages: int = 1) -> float:
        """Take a turn for so many; the seconds until it comes."""
        now = self._clock()
        due = max(self._due, now)
        self._due = due + self._interval * messages
        return max(0.0, due - self._tolerance - now)

    async def __call__(self, delivery: Delivery, next: Handler) -> Outcome:
        seconds = self.wait(delivery.size)
        if seconds and not await delivery.pause(seconds):
            return again()
        return await next(delivery)
