"""Messages that this process has handled a moment ago are not handled once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeAlias

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

    Offsets with the time of the message: a channel that was made anew begins to count anew. Two generations,
    the older one forgotten as a whole: cheaper than forgetting one by one.
    """

    __slots__ = ("at_work", "before", "handled")

    def __init__(self) -> None:
        self.handled: dict[Hashable, int | None] = {}
        self.before: dict[Hashable, int | None] = {}
        self.at_work: _AtWork = {}

    def has(self, id: Hashable, time: int | None) -> bool:
        if id in self.handled:
            return self.handled[id] == time
        return id in self.before and self.before[id] == time


_Identity: TypeAlias = tuple[_Known, Hashable, int | None]


class Deduplicate:
    """Remembers the last messages in memory: repetitions that come soon, to the same process, are dropped.

    At least the last ``remember`` are known, at most twice as many. Messages are told apart by what
    ``by`` gives, else in their channel by the header ``message-id``, else by where they stand there; those
    without an id all pass where the broker keeps no positions, as with MQTT. What one group has handled,
    another still has to. A copy that comes while the first is at work waits for it, and is handled if that
    one fails. Cheap, and a promise no longer than the process lives: for effects that happen once whatever
    comes, let the endpoint take a transaction, and the database of its effects remembers.
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
        identity = self._identified(delivery)
        if identity is None:
            return next(delivery)
        known, id, time = identity
        if id in known.at_work:
            return self._after_first(known.at_work, id, delivery, next)
        if known.has(id, time):
            return self._drop()
        known.at_work[id] = None
        return self._first(identity, delivery, next)

    def _identified(self, delivery: Delivery) -> _Identity | None:
        """Each group has all messages to handle, and an id counts within its channel."""
        message, route = delivery.message, delivery.route
        place: Hashable = route.group, message.channel, message.partition
        id: Hashable = message.offset if route.by_position else None
        time = message.timestamp
        if self._identify is not None:
            given = self._identify(delivery)
            if given is not None:
                place, id, time = route.group, given, None
        elif message.headers:
            found = header(message.headers, MESSAGE_ID)
            if found is not None:
                place, id, time = (route.group, message.channel), found, None
        if id is None:
            return None
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = _Known()
        return known, id, time

    async def _rest_of(self, batch: Batch, next: Handler) -> Outcome:
        """A batch that comes again may have other members: only those that are known are left out."""
        fresh: list[Delivery] = []
        identities: set[_Identity] = set()
        for each in batch.members:
            identity = self._identified(each)
            if identity is not None:
                known, id, time = identity
                if identity in identities or known.has(id, time):
                    continue
                identities.add(identity)
            fresh.append(each)
        self.dropped += len(batch.members) - len(fresh)
        if not fresh:
            return DONE
        outcome = await next(Batch(fresh))
        if outcome.acknowledge:
            for identity in identities:
                self._remember(identity)
        return outcome

    def _remember(self, identity: _Identity) -> None:
        known, id, time = identity
        known.handled[id] = time
        self._noted += 1
        if self._noted >= self._most:
            self._noted = 0
            for each in self._known.values():
                each.before, each.handled = each.handled, {}

    async def _first(self, identity: _Identity, delivery: Delivery, next: Handler) -> Outcome:
        known, id, _ = identity
        try:
            outcome = await next(delivery)
            if outcome.acknowledge:
                self._remember(identity)
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
