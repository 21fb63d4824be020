"""The one shape: a delivery in, an outcome out. Endpoints, retry, dead letter and users' own are all this.

A middleware gets the delivery and the next handler, and gives what that one gives, or something else:

    async def timing(delivery: Delivery, next: Handler) -> Outcome:
        started = time.perf_counter()
        try:
            return await next(delivery)
        finally:
            seconds[delivery.endpoint].append(time.perf_counter() - started)

An error that leaves the outermost one keeps the message unacknowledged: it is delivered again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.client.delivery import Delivery


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the loop does with the message: acknowledge it, or give it back to come again after a delay."""

    acknowledge: bool
    delay: float = 0.0


DONE = Outcome(acknowledge=True)
LONG_REST = 30.0
"""Seconds until a message comes again that can only wait for somebody to change something."""

Handler: TypeAlias = Callable[[Delivery], Awaitable[Outcome]]
Middleware: TypeAlias = Callable[[Delivery, Handler], Awaitable[Outcome]]


def again(delay: float = 0.0) -> Outcome:
    """Not handled: deliver it again, not before ``delay`` seconds."""
    return Outcome(acknowledge=False, delay=delay)
