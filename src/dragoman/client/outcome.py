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

import logging
from asyncio import Future
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.client.delivery import Delivery
from dragoman.core.backoff import Backoff
from dragoman.core.errors import DragomanError
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the loop does with the message: acknowledge it, or give it back to come again after a delay.

    With ``stop`` the message is given back, and the loop ends for this reason.
    """

    acknowledge: bool
    delay: float = 0.0
    stop: Exception | None = None
    later: Future[Outcome] | None = None
    """What becomes of it is not known yet: it stays in flight until this tells."""
    counted: bool = False
    """That it was given back is in the numbers already."""


DONE = Outcome(acknowledge=True)
LONGEST_REST = 30.0
"""Seconds until a message comes again that can only wait for somebody to change something."""
UNSETTLED = Backoff(0.2, LONGEST_REST)

Handler: TypeAlias = Callable[[Delivery], Awaitable[Outcome]]
Middleware: TypeAlias = Callable[[Delivery, Handler], Awaitable[Outcome]]


def again(delay: float = 0.0) -> Outcome:
    """Not handled: deliver it again, not before ``delay`` seconds."""
    return Outcome(acknowledge=False, delay=delay)


def kept(message: Message, error: Exception) -> Outcome:
    """Nobody could deal with the failure, so the message stays unacknowledged and comes again."""
    delay = UNSETTLED.wait_s(message.attempt)
    log.error(
        "A message stays unacknowledged and is delivered again.",
        exc_info=error,
        extra={
            "channel": message.channel,
            "partition": message.partition,
            "offset": message.offset,
            "error_code": error.code if isinstance(error, DragomanError) else "endpoint.failed",
            "delay": delay,
        },
    )
    return again(delay)
