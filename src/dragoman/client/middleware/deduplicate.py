"""Messages that this process has handled a moment ago are not handled once more."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Hashable

from dragoman.client.arguments import at_least
from dragoman.client.batch import Batch
from dragoman.client.delivery import Delivery
from dragoman.client.headers import MESSAGE_ID
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.core.errors import ConfigurationError
from dragoman.core.message import header

Identify = Callable[[Delivery], Hashable]


_AtWork = dict[Hashable, asyncio.Future[None] | None]
"""With something to wait for, once a copy has come."""


class _Known:
    """What was handled of one partition, or of one channel if messages have ids.

    Two generations, the older one forgotten as a whole: cheaper than forgetting one by one.
    """

    __slots__ = ("at_work", "before", "handled")

    def __init__(self) -> None:
        self.handled: set[Hashable] = set()
        self.before: set[Hashable] = set()
        self.at_work: _AtWork = {}


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
        self._known: dict[Hashable, _Known] = {}
        self._noted = 0

    def __call__(self, delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        if isinstance(delivery, Batch):
            return self._rest_of(delivery, next)
        known, id = self._identified(delivery)
        if id in known.at_work:
            return self._after_first(known.at_work, id, delivery, next)
        if id in known.handled or id in known.before:
            return self._drop()
        known.at_work[id] = None
        return self._first(known, id, delivery, next)

    def _identified(self, delivery: Delivery) -> tuple[_Known, Hashable]:
        """Each group has all messages to handle, and an id counts within its channel."""
        message, group = delivery.message, delivery.route.group
        place: Hashable = group, message.channel, message.partition
        id: Hashable = message.offset
        if self._identify is not None:
            given = self._identify(delivery)
            if given is not None:
                place, id = group, given
        elif message.headers:
            found = header(message.headers, MESSAGE_ID)
            if found is not None:
                place, id = (group, message.channel), found
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = _Known()
        return known, id

    async def _rest_of(self, batch: Batch, next: Handler) -> Outcome:
        """A batch that comes again may have other members: only those that are known are left out."""
        fresh: dict[tuple[int, Hashable], tuple[_Known, Delivery]] = {}
        for each in batch.members:
            known, id = self._identified(each)
            if id not in known.handled and id not in known.before:
                fresh.setdefault((builtins.id(known), id), (known, each))
        self.dropped += len(batch.members) - len(fresh)
        if not fresh:
            return DONE
        outcome = await next(Batch([each for _, each in fresh.values()]))
        if outcome.acknowledge:
            for (_, id), (known, _) in fresh.items():
                self._remember(known, id)
        return outcome

    def _remember(self, known: _Known, id: Hashable) -> None:
        known.handled.add(id)
        self._noted += 1
        if self._noted >= self._most:
            self._noted = 0
            for each in self._known.values():
                each.before, each.handled = each.handled, set()

    async def _first(self, known: _Known, id: Hashable, delivery: Delivery, next: Handler) -> Outcome:
        try:
            outcome = await next(delivery)
            if outcome.acknowledge:
                self._remember(known, id)
            return outcome
        finally:
            waited_for = known.at_work.pop(id)
            if waited_for is not None:
                waited_for.set_result(None)

    async def _after_first(
        self, at_work: _AtWork, id: Hashable, delivery: Delivery, next: Handler
    ) -> Outcome:
        first = at_work[id]
        if first is None:
            first = at_work[id] = asyncio.get_running_loop().create_future()
        await asyncio.wait((first,))
        return await self(delivery, next)

    async def _drop(self) -> Outcome:
        self.dropped += 1
        return DONE
