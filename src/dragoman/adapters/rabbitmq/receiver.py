"""Receiving: a member of a group, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable, Sequence

from dragoman.adapters.rabbitmq.catalog import Catalog
from dragoman.adapters.rabbitmq.errors import translated
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.membership import Membership
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.adapters.rabbitmq.share import Share
from dragoman.core.broker import Subscription, revoked
from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message

BEAT = 1.0
"""How often a member looks whether others came or went."""
QUICK_BEAT = 0.25
"""As long as it has more or less than it should."""


class RabbitmqReceiver:
    """Implements ``dragoman.core.broker.Receiver``.

    After a loss of the connection, what was in flight is lost to us; ``receive`` joins the group again.
    """

    def __init__(self, link: Link, catalog: Catalog, subscription: Subscription) -> None:
        self.subscription = subscription
        self.closed = False
        self._link = link
        self._membership = Membership(link, catalog, subscription, self._wake)
        self._saver: Pipe | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._beat_at = 0.0
        self._taken: list[Message] = []
        self._turn = 0
        self._held: Collection[tuple[str, int | None]] = ()

    async def open(self) -> None:
        await self._tend()

    async def _tend(self) -> None:
        """Its own task after the first time, so that nobody who stops waiting leaves it half done."""
        try:
            if not self._membership.joined:
                await self._membership.join()
            await self._membership.tend()
        finally:
            self._beat_at = time.monotonic() + (QUICK_BEAT if self._membership.unsettled else BEAT)
            self._wake()

    def _keep_tending(self) -> None:
        """Start the next round if it is time; raise what went wrong in the last."""
        task = self._tending
        if task is not None and task.done():
            self._tending = None
            if not task.cancelled():
                task.result()
        lost = not self._membership.joined or any(share.lost for share in self._membership.shares.values())
        if self._tending is None and (lost or time.monotonic() >= self._beat_at):
            self._tending = asyncio.create_task(self._tend())

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            if self.closed:
                raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
            self._keep_tending()
            await self._hand_over()
            waiter = self._waiter = loop.create_future()
            if found := await self._take(limit):
                return found
            remaining = deadline - loop.time()
            if remaining <= 0:
                return []
            await asyncio.wait((waiter,), timeout=min(remaining, self._next_event()))

    async def _hand_over(self) -> None:
        if self._membership.unsettled and self._membership.may_hand_over():
            await asyncio.shield(self._membership.hand_over())
            self._beat_at = 0.0

    async def _take(self, limit: int) -> list[Message]:
        """From all partitions, each in its turn the first. What is taken is recorded before it is given."""
        taken = [message for message in self._taken[:limit] if not self.lost(message)]
        del self._taken[:limit]
        shares = [share for share in self._served() if not share.lost]
        touched = []
        now = time.monotonic()
        self._turn += 1
        for number in range(len(shares)):
            share = shares[(number + self._turn) % len(shares)]
            if len(taken) >= limit:
                break
            if share.leave_by is None and (some := share.take(limit - len(taken), now)):
                taken = taken + some if taken else some
                touched.append(share)
        if not touched:
            return taken
        try:
            if self._link.options.count_deliveries:
                await self._save(touched)
            for share in touched:
                await share.refill(self._link.options.prefetch)
        except BaseException:
            # Nobody has them yet: they are first in line the next time.
            self._taken = taken + self._taken
            raise
        return taken

    def _served(self) -> list[Share]:
        shares = self._membership.shares
        return [share for place, share in shares.items() if place not in self._held]

    def _next_event(self) -> float:
        wait = max(0.0, self._beat_at - time.monotonic()) if self._tending is None else BEAT
        now = time.monotonic()
        for share in self._served():
            if (due := share.progress.next_due()) is not None:
                wait = min(wait, max(0.0, due - now))
        for share in self._membership.shares.values():
            if share.leave_by is not None:
                wait = min(wait, max(0.0, share.leave_by - time.monotonic()))
        return wait + 0.001

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def partitions(self) -> int:
        return len(self._membership.shares)

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        self._held = places

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        late = None
        touched: dict[Share, None] = {}
        for message in messages:
            if (share := self._share(message)) is None:
                late = message
            else:
                share.acknowledge(message.offset or 0)
                touched[share] = None
        await self._save(touched)
        if late is not None:
            raise revoked(late, self.subscription.group)

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        late = None
        due = time.monotonic() + delay if delay > 0 else None
        offsets: dict[Share, set[int]] = {}
        for message in messages:
            if (share := self._share(message)) is None:
                late = message
            elif share.progress.in_flight(message.offset or 0):
                offsets.setdefault(share, set()).add(message.offset or 0)
        for share, some in offsets.items():
            share.release(some, due)
        await self._save(offsets)
        self._wake()
        if late is not None:
            raise revoked(late, self.subscription.group)

    async def _save(self, shares: Iterable[Share]) -> None:
        """Record where the group is in these partitions; all at once, and wait for all."""
        records = [(share.queue, share.record(self._link.options.count_deliveries)) for share in shares]
        if not records:
            return
        pipe = self._saver
        if pipe is None or pipe.is_closed:
            pipe = self._saver = await self._link.pipe(confirms=True)
        with translated(group=self.subscription.group):
            async with asyncio.timeout(self._link.options.timeout):
                if len(records) == 1:
                    await pipe.save(*records[0])
                else:
                    await asyncio.gather(*(pipe.save(*record) for record in records))

    def lost(self, message: Message) -> bool:
        return self._share(message) is None

    def _share(self, message: Message) -> Share | None:
        """Where it is in flight, or was and is done; ``None`` if its delivery is not ours any more."""
        if message.partition is None or message.offset is None:
            return None
        share = self._membership.shares.get((message.channel, message.partition))
        if share is None or share.lost or share.progress.given_back(message.offset):
            return None
        return share

    async def extend(self) -> None:
        """Claims last as long as the connection does. But others may have come meanwhile."""
        self._keep_tending()
        await self._hand_over()
        for share in [share for share in self._membership.shares.values() if not share.lost]:
            await share.refill(self._link.options.prefetch)

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._tending is not None:
            await end(self._tending)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._membership.leave(), self._link.options.timeout)
        await self._link.close()
        self._wake()
