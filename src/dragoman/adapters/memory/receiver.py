"""A member of a group."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from itertools import count

from dragoman.adapters.memory.bus import Bus
from dragoman.adapters.memory.group import Group, Place
from dragoman.adapters.memory.share import Share
from dragoman.core.broker import Subscription, revoked
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message

_NUMBERS = count(1)


class MemoryReceiver:
    """Implements ``dragoman.core.broker.Receiver``; see ``MemoryBroker`` for what is ordered when."""

    def __init__(self, bus: Bus, group: Group, subscription: Subscription) -> None:
        self.id = f"{subscription.member}#{next(_NUMBERS):08}"
        self.subscription = subscription
        self.closed = False
        self._bus = bus
        self._group = group
        self._shares: dict[Place, Share] = {}
        self._turns: list[Share] = []
        self._held: set[Share] = set()
        self._waiter: asyncio.Future[None] | None = None
        self._thread = 0
        self._in_one_go = True
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._seen = bus.clock.monotonic()

    def assign(self, shares: dict[Place, Share]) -> None:
        if shares.keys() != self._shares.keys():
            self._shares = shares
            self._turns = list(shares.values())
            self.wake()

    def silent_since(self, now: float) -> float:
        return 0.0 if self._waiter is not None else now - self._seen

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if threading.get_ident() == self._thread:
            waiter.set_result(None)
        elif not waiter.get_loop().is_closed():
            waiter.get_loop().call_soon_threadsafe(_finish, waiter)

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        # Others get their turn, however busy the channel is. Nothing is taken before this point.
        if self._in_one_go:
            await asyncio.sleep(0)
        self._in_one_go = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            with self._bus.lock:
                now = self._join_in()
                taken = self._take(limit, now)
                remaining = deadline - loop.time()
                if taken or remaining <= 0:
                    return taken
                waiter = self._waiter = loop.create_future()
                self._thread = threading.get_ident()
                for channel in self.subscription.channels:
                    if channel in self._bus.topics:
                        self._bus.topics[channel].waiting.add(self)
                if not self._bus.clock.manual:
                    remaining = min(remaining, self._next_event(now))
            self._wake_at(loop, loop.time() + max(remaining, 0.0))
            self._in_one_go = False
            try:
                await waiter
            finally:
                with self._bus.lock:
                    self._waiter = None
                    self._seen = self._bus.clock.monotonic()
                    for channel in self.subscription.channels:
                        if channel in self._bus.topics:
                            self._bus.topics[channel].waiting.discard(self)

    def _wake_at(self, loop: asyncio.AbstractEventLoop, moment: float) -> None:
        """Have the waiter woken by then. A timer that comes early finds out and waits on: most never come."""
        self._due = moment
        if self._timer is None or self._timer.when() > moment:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(moment, self._ring)

    def _ring(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        loop = waiter.get_loop()
        if self._due > loop.time():
            self._timer = loop.call_at(self._due, self._ring)
        else:
            waiter.set_result(None)

    def _join_in(self) -> float:
        """Show that we are alive, in the group again if we were taken for dead; the time."""
        if self.closed:
            raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
        now = self._seen = self._bus.clock.monotonic()
        if self._bus.delayed:
            self._bus.bring_in_due(now)
        if self not in self._group.members:
            if self._bus.groups.get(self.subscription.group) is not self._group:
                raise BrokerUnavailable("The group is forgotten.", next="Subscribe again.")
            self._group.admit(self.subscription, now)
            self._group.join(self, now)
        self._group.settle(now)
        return now

    def _take(self, limit: int, now: float) -> list[Message]:
        """Partitions take turns at being the first that is asked."""
        turns = self._turns
        if not turns:
            return []
        turns.append(turns.pop(0))
        taken: list[Message] = []
        for share in turns:
            if share.leave_by is None and share not in self._held:
                found = share.take(limit - len(taken), now)
                taken = taken + found if taken else found
                if len(taken) >= limit:
                    break
        return taken

    def _next_event(self, now: float) -> float:
        wait = self._group.next_event(now)
        if self._bus.delayed:
            wait = min(wait, self._bus.delayed[0].due - now)
        for share in self._turns:
            if (
                share.progress.aside
                and share not in self._held
                and (due := share.progress.next_due()) is not None
            ):
                wait = min(wait, due - now)
        return wait

    @property
    def partitions(self) -> int:
        return len(self._turns)

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        if places or self._held:
            shares = self._shares
            self._held = {share for place in places if (share := shares.get(place)) is not None}  # type: ignore[arg-type]

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        late = None
        with self._bus.lock:
            self._seen = self._bus.clock.monotonic()
            for message in messages:
                if (share := self._share(message)) is None:
                    late = message
                else:
                    share.progress.acknowledge(message.offset or 0)
            if self._group.unsettled:
                self._group.settle(self._seen)
        if late is not None:
            raise revoked(late, self.subscription.group)

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        late = None
        with self._bus.lock:
            now = self._seen = self._bus.clock.monotonic()
            offsets: dict[Share, set[int]] = {}
            for message in messages:
                if (share := self._share(message)) is None:
                    late = message
                elif share.progress.in_flight(message.offset or 0):
                    offsets.setdefault(share, set()).add(message.offset or 0)
            for share, some in offsets.items():
                share.progress.release(some, now + delay if delay > 0 else None)
            self._group.settle(now)
            self.wake()
        if late is not None:
            raise revoked(late, self.subscription.group)

    def lost(self, message: Message) -> bool:
        return self._share(message) is None

    def _share(self, message: Message) -> Share | None:
        """Where it is in flight, or was and is done; ``None`` if its delivery is not ours any more."""
        if message.partition is None or message.offset is None:
            return None
        share = self._shares.get((message.channel, message.partition))
        return None if share is None or share.progress.given_back(message.offset) else share

    async def extend(self) -> None:
        with self._bus.lock:
            self._seen = self._bus.clock.monotonic()
            if self._group.unsettled:
                self._group.settle(self._seen)

    async def close(self) -> None:
        with self._bus.lock:
            if not self.closed:
                self.closed = True
                if self._timer is not None:
                    self._timer.cancel()
                self._group.leave(self, self._bus.clock.monotonic())
                self._bus.forget_temporary(self.subscription.group, self._group)
                self._shares = {}
                self._turns = []
                self.wake()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
