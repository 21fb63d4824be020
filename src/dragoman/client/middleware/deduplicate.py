"""Messages that this process has handled a moment ago are not handled once more."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable

from dragoman.client.delivery import Delivery
from dragoman.client.headers import MESSAGE_ID
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.core.errors import ConfigurationError
from dragoman.core.message import header

Identify = Callable[[Delivery], Hashable]


def identity(delivery: Delivery) -> Hashable:
    """By the header ``message-id``, else by where the message stands in its channel."""
    message = delivery.message
    found = header(message.headers, MESSAGE_ID) if message.headers else None
    return (message.channel, message.partition, message.offset) if found is None else found


class Deduplicate:
    """Remembers the last messages in memory: repetitions that come soon, to the same process, are dropped.

    Cheap, and a promise no longer than the process lives. For effects that happen once whatever comes, let
    the endpoint take a transaction: the idempotent receiver remembers in the database of its effects. A copy
    that comes while the first is at work waits for it, and is handled if that one fails.
    """

    def __init__(self, remember: int = 10_000, by: Identify = identity) -> None:
        if remember < 1:
            raise ConfigurationError(
                f"Nothing can be told from a memory of {remember}.", next="Use 1 or more."
            )
        self.dropped = 0
        self._most = remember
        self._identify = by
        self._handled: OrderedDict[Hashable, None] = OrderedDict()
        self._at_work: dict[Hashable, asyncio.Future[None]] = {}

    async def __call__(self, delivery: Delivery, next: Handler) -> Outcome:
        key = self._identify(delivery)
        while (first := self._at_work.get(key)) is not None:
            await asyncio.wait((first,))
        if key in self._handled:
            self.dropped += 1
            return DONE
        self._at_work[key] = at_work = asyncio.get_running_loop().create_future()
        try:
            outcome = await next(delivery)
            if outcome.acknowledge:
                self._remember(key)
            return outcome
        finally:
            del self._at_work[key]
            at_work.set_result(None)

    def _remember(self, key: Hashable) -> None:
        self._handled[key] = None
        if len(self._handled) > self._most:
            self._handled.popitem(last=False)
