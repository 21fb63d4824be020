"""One member of a group on one channel: alive as long as it beats, owner of its fair share of partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from dragoman.core.backoff import contention
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.leasing.record import ShareRecord
from dragoman.core.leasing.records import Change, Records
from dragoman.core.leasing.roster import Roster
from dragoman.core.leasing.share import Share
from dragoman.core.leasing.watch import ASK_AFTER, GRACE, Watch
from dragoman.core.partitioning import check_company, check_durability
from dragoman.core.progress import Progress

ROSTER = "roster"
LONGEST_REST = 20.0
"""Seconds between beats at most, however long the lease."""
CONTENTION = contention(0.001, 0.025)
TRIES = 200
"""So often a change of the roster is tried while others are faster."""

Starts = Callable[[str], Awaitable[Sequence[int]]]
"""Where a group that is new to a channel begins, per partition."""


class Membership:
    """``shares`` are the partitions that are ours. Every method is called by one task at a time."""

    def __init__(
        self,
        channel: str,
        name: str,
        subscription: Subscription,
        records: Records,
        starts: Starts,
        lease: float,
        handover: float,
    ) -> None:
        self.channel = channel
        self.name = name
        self.shares: dict[int, Share] = {}
        self._subscription = subscription
        self._records = records
        self._starts = starts
        self._lease = lease
        self._handover = handover
        self._watch = Watch(name)
        self._seat = ""
        self._beat_at = 0.0
        self._partitions = 0
        self._unsure = False
        self._anew = False

    async def join(self, partitions: int) -> None:
        """Raises ``GroupTaken``, and ``ConfigurationError`` if the group is of another kind."""
        self._partitions = partitions
        if self._subscription.sharing is Sharing.EXCLUSIVE or not self._subscription.durable:
            await self._wait_for_burial()
        await self._update(self._enter)

    async def _wait_for_burial(self) -> None:
        """Members without a connection have a moment to come back. Then they are in nobody's way."""
        deadline = time.monotonic() + ASK_AFTER + 2 * GRACE
        while time.monotonic() < deadline:
            [stored] = await self._records.load([ROSTER])
            if stored is None:
                return
            roster = Roster.decode(stored.data)
            await self._watch.observe(roster, self._records)
            gone = await self._records.gone({member.seat for member in roster.members.values()})
            if all(name in self._watch.dead for name in roster.members if roster.members[name].seat in gone):
                return
            await asyncio.sleep(GRACE / 10)

    async def look(self, partitions: int) -> None:
        """Beat if it is time, bury the dead, give up what is too much, claim what is free and ours."""
        if self._unsure:
            await self._make_sure()
        [stored] = await self._records.load([ROSTER])
        seat = await self._records.seat()
        roster = None if stored is None else Roster.decode(stored.data)
        if roster is None or self.name not in roster.members or seat != self._seat:
            await self.join(partitions)
            return
        self._partitions = partitions
        await self._watch.observe(roster, self._records)
        if self._wants_change(roster):
            await self._update(self._balance)
            if not self._subscription.durable and self.shares:
                # What is to pass with its group passes unless it is renewed.
                await self.save(list(self.shares.values()))
        else:
            await self._adopt(roster)

    def _wants_change(self, roster: Roster) -> bool:
        now = time.monotonic()
        quota = roster.quotas(self.channel, self._partitions).get(self.name, 0)
        owned = roster.owned_by(self.name)
        free = self._partitions > len(roster.owners)
        self._plan_leaving(len(owned) - quota, now)
        return (
            now >= self._beat_at
            or bool(self._watch.dead)
            or (free and len(owned) < quota)
            or bool(self._leaving(now))
        )

    async def _update(self, change: Callable[[Roster], None]) -> None:
        """Change the roster; again if somebody else did so meanwhile."""
        for failures in range(1, TRIES + 1):
            self._seat = await self._records.seat()
            [stored] = await self._records.load([ROSTER])
            if stored is None:
                await self._open()
            roster = Roster(self._subscription.durable) if stored is None else Roster.decode(stored.data)
            self._watch.note(roster)
            change(roster)
            before = 0 if stored is None else stored.revision
            [revision] = await self._records.save([Change(ROSTER, roster.encode(), before)])
            if revision is not None:
                self._beat_at = time.monotonic() + min(self._lease / 3, LONGEST_REST)
                await self._adopt(roster)
                return
            await asyncio.sleep(CONTENTION.wait_s(failures))
        raise BrokerUnavailable(
            "The group changes too fast to join it.",
            next="Try again.",
            group=self._subscription.group,
            channel=self.channel,
        )

    async def _open(self) -> None:
        """The group is new to the channel: write down where it starts, unless another member was faster."""
        starts = await self._starts(self.channel)
        self._partitions = len(starts)
        names = [str(number) for number in range(len(starts))]
        if any(await self._records.load(names)):
            return
        await self._records.save(
            [
                Change(name, ShareRecord(0, Progress(start)).encode(), 0)
                for name, start in zip(names, starts, strict=True)
            ]
        )

    def _enter(self, roster: Roster) -> None:
        there = bool(roster.members)
        roster.remove(self._watch.dead)
        # All members of a group that was not to last are dead: it is forgotten, and starts anew.
        self._anew = there and not roster.members and not roster.durable
        if not self._anew:
            check_durability(self._subscription, roster.durable)
        roster.durable = self._subscription.durable
        check_company(
            self._subscription,
            [
                (Sharing(member.sharing), (self.channel,))
                for name, member in roster.members.items()
                if name != self.name
            ],
        )
        self._balance(roster)

    def _balance(self, roster: Roster) -> None:
        roster.remove(self._watch.dead)
        roster.beat(self.name, self._lease, self._seat, self._subscription.sharing)
        roster.give_up(self.name, [share.place[1] for share in self._leaving(time.monotonic())])
        quota = roster.quotas(self.channel, self._partitions).get(self.name, 0)
        roster.take_free(self.name, self._partitions, quota)

    def _plan_leaving(self, surplus: int, now: float) -> None:
        """Idle partitions go first, those that are to go already stay so."""
        held = sorted(self.shares.values(), key=lambda share: (share.leave_by is None, share.progress.busy))
        keep = max(0, surplus)
        for share in held[keep:]:
            share.leave_by = None
        for share in held[:keep]:
            if share.leave_by is None:
                share.leave_by = now + self._handover

    def _leaving(self, now: float) -> list[Share]:
        """Those that another member waits for, and that are finished or out of time."""
        return [
            share
            for share in self.shares.values()
            if share.leave_by is not None and (not share.progress.busy or share.leave_by <= now)
        ]

    async def _adopt(self, roster: Roster) -> None:
        """Own what the roster says, and no more."""
        owned = roster.owned_by(self.name)
        for partition, share in list(self.shares.items()):
            if owned.get(partition) != share.record.epoch:
                del self.shares[partition]
        claimed = [partition for partition in sorted(owned) if partition not in self.shares]
        if claimed:
            await self._claim({partition: owned[partition] for partition in claimed})

    async def _claim(self, epochs: dict[int, int]) -> None:
        """Write our epoch into the records: from then on the former owner can change nothing."""
        names = [str(partition) for partition in epochs]
        found = await self._records.load(names)
        starts = await self._starts(self.channel) if self._anew else []
        shares, changes = [], []
        for (partition, epoch), name, stored in zip(epochs.items(), names, found, strict=True):
            # A partition without a record was added after the group was made: it is read from its beginning.
            record = ShareRecord(0, Progress(0)) if stored is None else ShareRecord.decode(stored.data)
            # One with our own epoch was written by us, and the answer did not come.
            if record.epoch > epoch:
                continue
            record.progress.abandon()
            record.epoch = epoch
            if partition < len(starts):
                record.progress = Progress(starts[partition])
            shares.append(Share((self.channel, partition), record, 0))
            changes.append(Change(name, record.encode(), 0 if stored is None else stored.revision))
        if not changes:
            return
        for share, revision in zip(shares, await self._records.save(changes), strict=True):
            if revision is not None:
                share.revision = revision
                self.shares[share.place[1]] = share
        self._anew = False

    async def save(self, shares: Sequence[Share]) -> list[Share]:
        """Write down how far we are. Those that were taken from us are forgotten, and told."""
        changes = [Change(str(share.place[1]), share.record.encode(), share.revision) for share in shares]
        try:
            revisions = await self._records.save(changes)
        except BaseException:
            self._unsure = True
            raise
        lost = []
        for share, revision in zip(shares, revisions, strict=True):
            if revision is None:
                self.shares.pop(share.place[1], None)
                lost.append(share)
            else:
                share.revision = revision
        return lost

    async def _make_sure(self) -> None:
        """A change was sent and not answered: only its owner writes a record, so ours is the newer one."""
        partitions = list(self.shares)
        found = await self._records.load([str(partition) for partition in partitions])
        different = []
        for partition, stored in zip(partitions, found, strict=True):
            share = self.shares[partition]
            if stored is None or ShareRecord.decode(stored.data).epoch != share.record.epoch:
                del self.shares[partition]
            else:
                share.revision = stored.revision
                if stored.data != share.record.encode():
                    different.append(share)
        self._unsure = False
        if different:
            # Nothing else may ever happen in a partition, and others see only what is written down.
            await self.save(different)

    @property
    def unsure(self) -> bool:
        return self._unsure

    async def leave(self) -> None:
        """What is in flight is delivered again, by whoever claims it."""
        self.shares.clear()
        for _ in range(TRIES):
            [stored] = await self._records.load([ROSTER])
            if stored is None:
                return
            roster = Roster.decode(stored.data)
            roster.remove([self.name, *self._watch.dead])
            [revision] = await self._records.save([Change(ROSTER, roster.encode(), stored.revision)])
            if revision is not None:
                if not roster.members and not roster.durable:
                    names = [str(number) for number in range(max(self._partitions, 1))]
                    await self._records.remove([ROSTER, *names])
                return
