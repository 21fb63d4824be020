"""One member of a group: who else is there, and which partitions are its own.

Every member consumes from the group's crew queue, where they can be counted. A partition belongs to the
connection that holds the exclusive queue of its claim. The server takes both back when a connection ends,
however it ends. Shares are fair: each member has the whole part of partitions / members, and for each of the
rest there is one *extra*, an exclusive queue again, whose holder may have one more.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import NamedTuple

from dragoman.adapters.rabbitmq import locks, names, positions
from dragoman.adapters.rabbitmq.catalog import Catalog, GroupEntry
from dragoman.adapters.rabbitmq.errors import translated
from dragoman.adapters.rabbitmq.founding import join_or_found
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.adapters.rabbitmq.share import Share
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.errors import ChannelNotFound, GroupTaken
from dragoman.core.progress import Progress

Place = tuple[str, int]

EAGER = 10.0
"""For so many seconds after members came or went, partitions change hands: who lacks some asks often."""
PATIENT = 5.0
"""Afterwards it asks once in so many seconds."""


class Look(NamedTuple):
    """What a member saw when it last looked around, since when it is so, and when it last asked."""

    members: int
    partitions: int
    since: float
    tried: float


class Membership:
    """``shares`` is what this member has. ``tend`` brings it closer to what it should have."""

    def __init__(
        self, link: Link, catalog: Catalog, subscription: Subscription, wake: Callable[[], None]
    ) -> None:
        self.shares: dict[Place, Share] = {}
        self.unsettled = True
        self._link = link
        self._catalog = catalog
        self._subscription = subscription
        self._wake = wake
        self._crew: Pipe | None = None
        self._extras: dict[str, int] = {}
        self._leads: set[str] = set()
        self._looks: dict[str, Look] = {}
        self._founded: dict[str, tuple[str, GroupEntry]] = {}
        self._renewed = 0.0

    @property
    def _group(self) -> str:
        return self._subscription.group

    @property
    def joined(self) -> bool:
        return self._link.is_open and self._crew is not None and not self._crew.is_closed

    async def join(self) -> None:
        """Anew after a loss of the connection or of the crew, too: nothing is left of what was held."""
        await self._link.drop()
        self.shares.clear()
        self._extras.clear()
        self._leads.clear()
        self._looks.clear()
        self._crew = await self._link.pipe()
        for channel in dict.fromkeys(self._subscription.channels):
            async with locks.holding(self._link, names.door(channel, self._group)):
                await self._enter(channel, self._crew)

    async def _enter(self, channel: str, crew: Pipe) -> None:
        entry = await self._catalog.entry(channel)
        others = await self._members(channel)
        group = await join_or_found(self._link, self._catalog, self._subscription, entry, others)
        self._founded[channel] = entry.id, group
        with translated():
            async with asyncio.timeout(self._link.options.timeout):
                await crew.queue_declare(names.crew(channel, self._group), auto_delete=True)
                await crew.consume(names.crew(channel, self._group), lambda *_: None, on_end=self._fall_out)
        if self._subscription.sharing is Sharing.EXCLUSIVE and not await self._take_lead(channel):
            raise GroupTaken(
                "The group's last member is still leaving.", next="Try again.", group=self._group
            )

    def _fall_out(self) -> None:
        """The server has removed the crew, as with the node that had it: nobody counts us any more."""
        self._crew = None
        self._wake()

    async def _members(self, channel: str) -> int:
        try:
            async with self._link.borrowed() as pipe:
                found = await pipe.queue_declare(names.crew(channel, self._group), passive=True)
                return found.consumer_count or 0
        except ChannelNotFound:
            return 0

    async def tend(self) -> None:
        """Drop what is lost, give up what is too much, claim what is missing."""
        await self._catalog.refresh()
        self.unsettled = False
        for channel in dict.fromkeys(self._subscription.channels):
            mine = [share for share in self.shares.values() if share.channel == channel]
            for share in [share for share in mine if share.lost]:
                mine.remove(share)
                self._looks.pop(channel, None)
                await self.give_up(share)
            entry = self._catalog.known(channel)
            id, group = self._founded[channel]
            if entry is not None and entry.id == id:
                await self._balance(channel, entry.channel.partitions, group, mine)
                continue
            for share in mine:
                await self.give_up(share)
            if entry is not None:
                # Deleted and made anew: the group begins anew, too, without anything that we hold.
                await self._link.drop()
                return
        if not self._subscription.durable and time.monotonic() - self._renewed > positions.RENEW:
            await self._renew()

    async def _balance(self, channel: str, partitions: int, group: GroupEntry, mine: list[Share]) -> None:
        members = max(1, await self._members(channel))
        trying = self._worth_trying(channel, members, partitions)
        allowed = await self._allowed(channel, partitions, members, len(mine), trying)
        for share in mine[:allowed]:
            share.leave_by = None
        for share in mine[allowed:]:
            share.leave_by = share.leave_by or time.monotonic() + self._link.options.handover
            self.unsettled = True
        have = {share.partition for share in mine}
        others = [number for number in range(partitions) if number not in have]
        random.shuffle(others)
        missing = allowed - len(mine)
        while trying and missing > 0 and others:
            tried, others = others[:missing], others[missing:]
            found = await asyncio.gather(
                *(self._claim(channel, partition, group) for partition in tried), return_exceptions=True
            )
            for error in found:
                if isinstance(error, BaseException):
                    raise error
            missing -= found.count(True)
        self.unsettled = self.unsettled or missing > 0

    def _worth_trying(self, channel: str, members: int, partitions: int) -> bool:
        """Whether to ask for what others may hold. The server logs each refusal, so not all the time."""
        now = time.monotonic()
        look = self._looks.get(channel)
        if look is None or (look.members, look.partitions) != (members, partitions):
            look = self._looks[channel] = Look(members, partitions, now, 0.0)
        if now - look.since > EAGER and now - look.tried < PATIENT:
            return False
        self._looks[channel] = look._replace(tried=now)
        self.unsettled = self.unsettled or now - look.since <= EAGER
        return True

    async def _claim(self, channel: str, partition: int, group: GroupEntry) -> bool:
        """Whether it is ours now. One that was claimed and not begun is claimed again the next time."""
        if not await locks.take(self._link, names.claim(channel, partition, self._group)):
            return False
        await self._begin(channel, partition, group)
        return True

    async def _allowed(self, channel: str, partitions: int, members: int, held: int, trying: bool) -> int:
        """How many partitions this member may have."""
        if self._subscription.sharing in (Sharing.FAILOVER, Sharing.EXCLUSIVE):
            leads = channel in self._leads or (trying and await self._take_lead(channel))
            return partitions if leads else 0
        each, more = divmod(partitions, members)
        extra = self._extras.get(channel)
        if extra is not None and extra >= more:
            await locks.give(self._link, self._extra_name(channel, self._extras.pop(channel)))
            extra = None
        if trying and extra is None and held >= each:
            extra = await self._take_extra(channel, more)
        return each + (extra is not None)

    async def _take_extra(self, channel: str, more: int) -> int | None:
        for number in range(more):
            if await locks.take(self._link, self._extra_name(channel, number)):
                self._extras[channel] = number
                return number
        return None

    def _extra_name(self, channel: str, number: int) -> str:
        return names.one_more(channel, number, self._group)

    async def _take_lead(self, channel: str) -> bool:
        if await locks.take(self._link, names.lead(channel, self._group)):
            self._leads.add(channel)
        return channel in self._leads

    async def _begin(self, channel: str, partition: int, group: GroupEntry) -> None:
        """The partition is ours: take up where its last owner stopped."""
        queue = names.position(channel, partition, self._group, group.life)
        record = await positions.begin(self._link, queue, temporary=not group.durable)
        if record is None:
            progress = Progress(group.start(partition))
        else:
            progress = positions.read(record)
            progress.abandon()
        share = Share(channel, partition, queue, progress)
        await share.start(self._link, self._wake)
        self.shares[channel, partition] = share

    async def _renew(self) -> None:
        """What a temporary group has on the server is removed unless somebody shows that it is in use."""
        self._renewed = time.monotonic()
        for channel in self._founded:
            await positions.renew(self._link, names.charter(channel, self._group))
        for share in list(self.shares.values()):
            await positions.renew(self._link, share.queue)

    async def give_up(self, share: Share) -> None:
        place = share.channel, share.partition
        if self.shares.get(place) is not share:
            return
        del self.shares[place]
        await share.stop()
        await locks.give(self._link, names.claim(share.channel, share.partition, self._group))

    def may_hand_over(self) -> bool:
        """Whether one that is to go can go: nothing of it is in flight, or its time is over."""
        return any(self._may_go(share) for share in self.shares.values())

    async def hand_over(self) -> None:
        for share in [share for share in self.shares.values() if self._may_go(share)]:
            await self.give_up(share)

    @staticmethod
    def _may_go(share: Share) -> bool:
        return share.leave_by is not None and (not share.progress.busy or time.monotonic() >= share.leave_by)

    async def leave(self) -> None:
        """Off the crew before anything else, so that who comes next finds nobody here."""
        crew, self._crew = self._crew, None
        self.shares.clear()
        if crew is not None and not crew.is_closed:
            await crew.close()
