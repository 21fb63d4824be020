"""A member of a leased group that receives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from dragoman.core.broker import revoked
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.leasing.membership import Membership
from dragoman.core.leasing.records import Source
from dragoman.core.leasing.share import Delivery, Share
from dragoman.core.message import Message

LOOK_AROUND = 0.3
"""Seconds between looks at the group."""


class LeasedReceiver:
    """Implements ``dragoman.core.broker.Receiver`` with cumulative acknowledgement.

    Order: a partition's messages are delivered in the order of their offsets. ``release`` without a delay
    keeps it: the message and those in flight behind it come again, in order. ``release`` with a delay sets
    the message aside: the others go on at once, and it comes back out of order when it is due. Only the
    message that was named counts an attempt, not those given back with it.
    """

    def __init__(self, source: Source, memberships: Sequence[Membership], group: str) -> None:
        self.closed = False
        self._source = source
        self._memberships = {each.channel: each for each in memberships}
        self._group = group
        self._lock = asyncio.Lock()
        self._taking: asyncio.Task[None] | None = None
        self._ready: list[Message] = []
        """In flight, and not given out yet: the caller was cancelled, or asked for fewer."""
        self._look_at = 0.0
        self._tend_at: float | None = None
        self._turn = 0
        self._held: Collection[tuple[str, int | None]] = ()

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        deadline = time.monotonic() + timeout
        while True:
            if self.closed:
                raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
            taken = await self._take(limit)
            remaining = deadline - time.monotonic()
            if taken or remaining <= 0:
                return taken
            await self._source.wait(self._cursors(), min(remaining, self._until_due()))

    async def _take(self, limit: int) -> list[Message]:
        """What is taken goes on when the caller is cancelled, and is given out the next time."""
        if self._taking is None and not self._ready:
            self._taking = asyncio.create_task(self._deliver(limit))
        if (taking := self._taking) is not None:
            try:
                await asyncio.shield(taking)
            finally:
                if taking.done():
                    self._taking = None
        taken, self._ready = self._ready[:limit], self._ready[limit:]
        return taken

    async def _deliver(self, limit: int) -> None:
        """Fill ``_ready``. The messages are not the task's result: a cancellation that comes together with it
        would lose them, and an acknowledgement has to know of them.
        """
        async with self._lock:
            await self._look_around()
            now = time.monotonic()
            deliveries = [Delivery.begin(share, now, limit) for share in self._in_turn()]
            try:
                await self._fill(deliveries, limit)
                changed = [each for each in deliveries if each.changes_something]
                lost = await self._save([each.share for each in changed])
            except BaseException:
                for delivery in deliveries:
                    delivery.undo()
                raise
            given = [each.messages for each in changed if each.share not in lost]
            self._ready = given[0] if len(given) == 1 else [message for some in given for message in some]

    def _in_turn(self) -> list[Share]:
        """Partitions take turns at being the first that is asked."""
        shares = [
            share
            for membership in self._memberships.values()
            for share in membership.shares.values()
            if share.leave_by is None and share.place not in self._held
        ]
        if len(shares) > 1:
            self._turn = (self._turn + 1) % len(shares)
            shares = shares[self._turn :] + shares[: self._turn]
        return shares

    async def _fill(self, deliveries: list[Delivery], limit: int) -> None:
        for delivery in deliveries:
            if delivery.due.returned:
                picked = await self._source.pick(delivery.share.place, delivery.due.returned)
                delivery.come_again(picked)
                limit -= len(picked)
        by_place = {each.share.place: each for each in deliveries if each.share.flows}
        if not by_place or limit <= 0:
            return
        cursors = [(place, each.share.progress.cursor) for place, each in by_place.items()]
        for place, found in await self._source.read(cursors, limit):
            by_place[place].flow(found)

    async def _save(self, shares: Sequence[Share]) -> list[Share]:
        """Write down how far these are; those that were lost to others."""
        lost: list[Share] = []
        by_channel: dict[str, list[Share]] = {}
        for share in shares:
            by_channel.setdefault(share.place[0], []).append(share)
        for channel, some in by_channel.items():
            lost += await self._memberships[channel].save(some)
        return lost

    async def _look_around(self) -> None:
        """Notice what other members and publishers did."""
        now = time.monotonic()
        unsure = any(membership.unsure for membership in self._memberships.values())
        if now >= self._look_at or unsure:
            self._look_at = now + LOOK_AROUND
            await self._look()
            self._tend_at = await self._source.tend()
        elif self._tend_at is not None and time.time() >= self._tend_at:
            self._tend_at = await self._source.tend()

    async def _look(self) -> None:
        for channel, membership in self._memberships.items():
            await membership.look(await self._source.partitions(channel))

    def _cursors(self) -> dict[tuple[str, int], int]:
        return {share.place: share.progress.cursor for share in self._in_turn() if share.flows}

    def _until_due(self) -> float:
        """When to look again, whether or not a message comes."""
        now = time.monotonic()
        waits = [max(0.0, self._look_at - now)]
        if self._tend_at is not None:
            waits.append(self._tend_at - time.time())
        for share in self._in_turn():
            if (due := share.progress.next_due()) is not None:
                waits.append(due - now)
        return max(0.0, min(waits))

    @property
    def partitions(self) -> int:
        return sum(len(membership.shares) for membership in self._memberships.values())

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        self._held = places

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        if messages:
            async with self._lock:
                await self._reassure()
                late = None
                touched: dict[Share, Message] = {}
                for message in messages:
                    if (share := self._share(message)) is None:
                        late = message
                    else:
                        if self._ready:
                            self._take_back(share, message.offset or 0)
                        share.progress.acknowledge(message.offset or 0)
                        touched[share] = message
                await self._settle(touched, late)

    def _take_back(self, share: Share, offset: int) -> None:
        """What was not given out must not be acknowledged with a later message.

        Such a message comes before others if it had been set aside. It is set aside again, and due at once.
        """
        returned = share.progress.returned
        for message in self._ready:
            place = message.channel, message.partition
            if place == share.place and (message.offset or 0) < offset and message.offset in returned:
                share.progress.put_aside(message.offset, 0.0, returned.pop(message.offset))
        self._ready = [message for message in self._ready if not self.lost(message)]

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        due = time.monotonic() + delay if delay > 0 else None
        async with self._lock:
            await self._reassure()
            late = None
            named: dict[Share, set[int]] = {}
            touched: dict[Share, Message] = {}
            for message in messages:
                if (share := self._share(message)) is None:
                    late = message
                elif share.progress.in_flight(message.offset or 0):
                    named.setdefault(share, set()).add(message.offset or 0)
                    touched[share] = message
            for share, offsets in named.items():
                share.progress.release(offsets, due)
            await self._settle(touched, late)
            self._ready = [message for message in self._ready if not self.lost(message)]

    async def _reassure(self) -> None:
        if any(membership.unsure for membership in self._memberships.values()):
            await self._look()

    async def _settle(self, touched: dict[Share, Message], late: Message | None) -> None:
        for share in await self._save(list(touched)):
            late = touched[share]
        if any(share.leave_by is not None and not share.progress.busy for share in touched):
            self._look_at = 0.0
        if late is not None:
            raise revoked(late, self._group)

    def lost(self, message: Message) -> bool:
        return self._share(message) is None

    def _share(self, message: Message) -> Share | None:
        """Where it is in flight, or was and is done; ``None`` if its delivery is not ours any more."""
        membership = self._memberships.get(message.channel)
        if membership is None or message.partition is None or message.offset is None:
            return None
        share = membership.shares.get(message.partition)
        return None if share is None or share.progress.given_back(message.offset) else share

    async def extend(self) -> None:
        if not self.closed:
            async with self._lock:
                await self._look_around()

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._taking is not None:
            await asyncio.gather(self._taking, return_exceptions=True)
        async with self._lock:
            self._ready = []
            try:
                for membership in self._memberships.values():
                    await membership.leave()
            finally:
                for membership in self._memberships.values():
                    membership.shares.clear()
                await self._source.close()
