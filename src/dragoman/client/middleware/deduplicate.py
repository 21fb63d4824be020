"""Messages that this process has handled a moment ago are not handled once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from dragoman.client.arguments import at_least
from dragoman.client.batch import Batch
from dragoman.client.delivery import Delivery
from dragoman.client.headers import MESSAGE_ID
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.core.errors import ConfigurationError
from dragoman.core.message import header

Identify = Callable[[Delivery], Hashable]


class Deduplicate:
    """Remembers the last messages in memory: repetitions that come soon, to the same process, are dropped.

    At least the last ``remember`` are known, at most twice as many. Messages are told apart by what
    ``by`` gives, else in their channel by the header ``message-id``, else by where they stand there; what
    one group has handled, another still has to. A copy that comes while the first is at work waits for
    it, and is handled if that one fails. Cheap, and a promise no longer than the process lives: for
    effects that happen once whatever comes, let the endpoint take a transaction, and the database of its
    effects remembers.
    """

    def __init__(self, remember: int = 10_000, by: Identify | None = None) -> None:
        at_least("remember", remember, 0, whole=True)
        if remember < 1:
            raise ConfigurationError(
                f"Nothing can be told from a memory of {remember}.", next="Use 1 or more."
            )
        self.guarded = by is not None
        self.dropped = 0
        self._most = remember
        self._identify = by
        # Two generations, the older one forgotten as a whole: cheaper than forgetting one by one.
        self._handled: set[Hashable] = set()
        self._before: set[Hashable] = set()
        self._at_work: dict[Hashable, asyncio.Future[None] | None] = {}
        """With something to wait for, once a copy has come."""

    def __call__(self, delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        if isinstance(delivery, Batch):
            return self._rest_of(delivery, next)
        key = self._key(delivery)
        if key in self._at_work:
            return self._after_first(key, delivery, next)
        if key in self._handled or key in self._before:
            return self._drop()
        self._at_work[key] = None
        return self._first(key, delivery, next)

    def _key(self, delivery: Delivery) -> Hashable:
        """Each group has all messages to handle, and an id counts within its channel."""
        message, group = delivery.message, delivery.route.group
        if self._identify is not None:
            given = self._identify(delivery)
            if given is not None:
                return group, given
        elif message.headers:
            id = header(message.headers, MESSAGE_ID)
            if id is not None:
                return group, message.channel, id
        return group, message.channel, message.partition, message.offset

    async def _rest_of(self, batch: Batch, next: Handler) -> Outcome:
        """A batch that comes again may have other members: only those that are known are left out."""
        fresh: dict[Hashable, Delivery] = {}
        for each in batch.members:
            key = self._key(each)
            if key not in self._handled and key not in self._before:
                fresh.setdefault(key, each)
        self.dropped += len(batch.members) - len(fresh)
        if not fresh:
            return DONE
        outcome = await next(Batch(list(fresh.values())))
        if outcome.acknowledge:
            for key in fresh:
                self._remember(key)
        return outcome

    def _remember(self, key: Hashable) -> None:
        self._handled.add(key)
        if len(self._handled) >= self._most:
            self._before, self._handled = self._handled, set()

    async def _first(self, key: Hashable, delivery: Delivery, next: Handler) -> Outcome:
        try:
            outcome = await next(delivery)
            if outcome.acknowledge:
                self._remember(key)
            return outcome
        finally:
            waited_for = self._at_work.pop(key)
            if waited_for is not None:
                waited_for.set_result(None)

    async def _after_first(self, key: Hashable, delivery: Delivery, next: Handler) -> Outcome:
        first = self._at_work[key]
        if first is None:
            first = self._at_work[key] = asyncio.get_running_loop().create_future()
        await asyncio.wait((first,))
        return await self(delivery, next)

    async def _drop(self) -> Outcome:
        self.dropped += 1
        return DONE
