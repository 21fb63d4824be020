"""Messages for later: one quorum queue per delay, so that no message waits behind a slower one."""

from __future__ import annotations

import time
from math import ceil
from typing import NamedTuple

from dragoman.adapters.rabbitmq import names
from dragoman.adapters.rabbitmq.link import Link
from dragoman.core.errors import ConfigurationError

IDLE = 3_600_000
"""A queue that nobody has published to for so many milliseconds beyond its delay is removed, empty."""
RENEW = 600.0
LONGEST = 45 * 86_400_000
"""The server's timers end not much later."""


class DelayQueue(NamedTuple):
    exchange: str
    declared: float


class Delays:
    """A message waits in a queue of its delay until it expires; then the server moves it to its stream.

    The move is at least once. To keep the queues few, delays are rounded up to two digits: a message comes
    at most ten per cent later than asked for, never earlier.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queues: dict[int, DelayQueue] = {}

    async def queue(self, delay: float) -> DelayQueue:
        milliseconds = rounded(delay)
        found = self._queues.get(milliseconds)
        # Declaring it again from time to time keeps it from being removed while it is in use.
        if found is None or time.monotonic() - found.declared > RENEW:
            found = self._queues[milliseconds] = await self._declare(milliseconds)
        return found

    def forget(self) -> None:
        """Something went wrong: the next one looks whether its queue is still there."""
        self._queues.clear()

    async def _declare(self, milliseconds: int) -> DelayQueue:
        name = names.delay(milliseconds)
        declared = time.monotonic()
        async with self._link.borrowed() as pipe:
            await pipe.exchange_declare(name, exchange_type="fanout", durable=True)
            await pipe.queue_declare(
                name,
                durable=True,
                arguments={
                    "x-queue-type": "quorum",
                    "x-message-ttl": milliseconds,
                    "x-expires": milliseconds + IDLE,
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-strategy": "at-least-once",
                    "x-overflow": "reject-publish",
                },
            )
            await pipe.queue_bind(name, name)
        return DelayQueue(name, declared)


def rounded(delay: float) -> int:
    """In milliseconds, up to two significant digits."""
    exact = max(1, ceil(delay * 1000))
    step = int("1".ljust(len(str(exact)) - 1, "0"))
    found = -(-exact // step) * step
    if found > LONGEST:
        raise ConfigurationError("A message cannot wait longer than 45 days.", next="Publish it later.")
    return found
