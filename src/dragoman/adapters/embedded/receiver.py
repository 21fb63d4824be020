"""A member of a group that receives from the embedded broker."""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from dragoman.adapters.embedded.bell import Bell
from dragoman.adapters.embedded.channels import ChannelFiles
from dragoman.adapters.embedded.database import Database
from dragoman.adapters.embedded.delayed import NEXT_DUE
from dragoman.adapters.embedded.membership import Membership
from dragoman.adapters.embedded.share import Plan, Share
from dragoman.core.broker import revoked
from dragoman.core.errors import BrokerUnavailable, DamagedLog
from dragoman.core.message import Message

_T = TypeVar("_T")

LOOK_AROUND = 0.1
"""Seconds between looks at the group."""


class EmbeddedReceiver:
    """Implements ``dragoman.core.broker.Receiver``; see ``EmbeddedBroker`` for what is ordered when."""

    def __init__(
        self,
        database: Database,
        membership: Membership,
        files: Sequence[ChannelFiles],
        bell: Bell,
        bring_in_due: Callable[[], Awaitable[None]],
    ) -> None:
        self.closed = False
        self._database = database
        self._membership = membership
        self._files = {one.id: one for one in files}
        self._ids = {one.name: one.id for one in files}
        self._bell = bell
        self._bring_in_due = bring_in_due
        for one in files:
            bell.listen(one.folder / "bounds")
        self._look_at = 0.0
        self._turn = 0
        self._held: set[tuple[int, int | None]] = set()
        self._met: set[tuple[object, ...]] = set()
        """The damage that was raised before."""

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        # Others get their turn, however busy the channel is. Nothing is taken before this point.
        await asyncio.sleep(0)
        deadline = time.monotonic() + timeout
        while True:
            if self.closed:
                raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
            await self._look_around()
            now = time.monotonic()
            plans, damage = self._plans(limit, now)
            taken = await self._deliver(plans) if plans else []
            remaining = deadline - time.monotonic()
            if taken:
                return taken
            if damage is not None and (self._is_new(damage) or remaining <= 0):
                raise damage
            if remaining <= 0:
                return taken
            await self._bell.wait(min(remaining, self._until_due(now)))

    async def _look_around(self) -> None:
        """Notice what other members and publishers did, at most every few milliseconds."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_AROUND
        [(version, due)] = await self._database.read(
            f"SELECT (SELECT version FROM team WHERE name = ?), ({NEXT_DUE})",  # noqa: S608
            (self._membership.team,),
        )
        if due is not None and due <= time.time():
            await self._bring_in_due()
        if self._membership.due(now, version):
            await self._database.write(self._membership.balance)

    def _plans(self, limit: int, now: float) -> tuple[list[Plan], DamagedLog | None]:
        """What could be delivered. Partitions take turns at being the first that is asked.

        A damaged partition does not hold back the others. The damage counts when there is nothing else to
        deliver and nothing in flight, so that handlers of sound messages can end first.
        """
        shares = list(self._membership.shares.values())
        if not shares:
            return [], None
        self._turn = (self._turn + 1) % len(shares)
        bounds = {id: files.bounds.all() for id, files in self._files.items()}
        plans: list[Plan] = []
        damage: DamagedLog | None = None
        for share in shares[self._turn :] + shares[: self._turn]:
            channel, partition = share.place
            if share.leave_by is not None or share.place in self._held or partition >= len(bounds[channel]):
                continue
            start, end = bounds[channel][partition]
            if share.progress.cursor >= end and not share.progress.aside and share.progress.position >= start:
                continue
            try:
                plan = share.plan(limit, start, end, now)
            except DamagedLog as error:
                damage = self._passable(error, share)
                continue
            except BaseException:
                _undo(plans)
                raise
            if plan.messages or plan.asides or plan.after > plan.before:
                plans.append(plan)
                limit -= len(plan.messages)
            if limit <= 0:
                break
        if plans or any(share.progress.busy for share in shares):
            damage = None
        return plans, damage

    def _is_new(self, damage: DamagedLog) -> bool:
        """Damage is raised at once when it is new. Later ``receive`` waits for other partitions first."""
        known = damage.where["channel"], damage.where["partition"], damage.first, damage.until
        if known in self._met:
            return False
        self._met.add(known)
        return True

    def _passable(self, damage: DamagedLog, share: Share) -> DamagedLog:
        command = ["dragoman", "channel", "skip", share.channel, "--group", self._membership.team]
        return damage.passable(
            f"move the group past the damage: {shlex.join(command)}.",
            channel=share.channel,
            partition=share.place[1],
        )

    def _until_due(self, now: float) -> float:
        shares = [share for share in self._membership.shares.values() if share.place not in self._held]
        dues = (share.progress.next_due() for share in shares)
        return min([LOOK_AROUND, *(max(0.0, due - now) for due in dues if due is not None)])

    async def _deliver(self, plans: list[Plan]) -> list[Message]:
        def work(connection: sqlite3.Connection) -> list[Message]:
            taken: list[Message] = []
            delivered.clear()
            for plan in plans:
                share = plan.share
                if (
                    self._membership.shares.get(share.place) is not share
                    or share.progress.cursor != plan.before
                ):
                    continue
                share.progress.cursor = plan.after
                if self._membership.save(connection, share, plan.asides):
                    taken = taken + plan.messages if taken else plan.messages
                    delivered.append(plan)
            return taken

        delivered: list[Plan] = []
        try:
            return await self._write(work)
        finally:
            _undo(plan for plan in plans if plan not in delivered)

    @property
    def partitions(self) -> int:
        return len(self._membership.shares)

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        if places or self._held:
            self._held = {(self._ids.get(channel, -1), partition) for channel, partition in places}

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        def work(connection: sqlite3.Connection) -> Message | None:
            late = None
            touched: dict[Share, list[int]] = {}
            for message in messages:
                share = self._share(message)
                if share is None:
                    late = message
                else:
                    touched.setdefault(share, []).extend(share.progress.acknowledge(message.offset or 0))
            for share, done in touched.items():
                if not self._membership.save(connection, share, done):
                    late = next(one for one in messages if self._place(one) == share.place)
            self._settle(connection)
            return late

        if messages:
            self._raise_if_late(await self._write(work))

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        due = time.monotonic() + delay if delay > 0 else None

        def work(connection: sqlite3.Connection) -> Message | None:
            late = None
            named: dict[Share, set[int]] = {}
            for message in messages:
                share = self._share(message)
                if share is None:
                    late = message
                elif share.progress.in_flight(message.offset or 0):
                    named.setdefault(share, set()).add(message.offset or 0)
            for share, offsets in named.items():
                changed = [*offsets, *share.progress.returned]
                share.progress.release(offsets, due)
                if not self._membership.save(connection, share, changed):
                    late = next(one for one in messages if self._place(one) == share.place)
            self._settle(connection)
            return late

        if messages:
            self._raise_if_late(await self._write(work))

    async def _write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            return await self._database.write(work)
        except BrokerUnavailable:
            self._membership.forget_all()
            raise

    def _settle(self, connection: sqlite3.Connection) -> None:
        """A partition that was to be handed over may be finished now."""
        if any(share.leave_by is not None for share in self._membership.shares.values()):
            self._membership.balance(connection)

    def _raise_if_late(self, message: Message | None) -> None:
        if message is not None:
            raise revoked(message, self._membership.team)

    def lost(self, message: Message) -> bool:
        return self._share(message) is None

    def _place(self, message: Message) -> tuple[int, int]:
        return self._ids.get(message.channel, -1), -1 if message.partition is None else message.partition

    def _share(self, message: Message) -> Share | None:
        """Where it is in flight, or was and is done; ``None`` if its delivery is not ours any more."""
        share = self._membership.shares.get(self._place(message))
        if share is None or message.offset is None or share.progress.given_back(message.offset):
            return None
        return share

    async def extend(self) -> None:
        if not self.closed:
            await self._look_around()

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            try:
                await self._database.write(self._membership.leave)
            finally:
                # Without its pulse the others take it for dead at once, whatever the database says.
                self._membership.stop()


def _undo(plans: Iterable[Plan]) -> None:
    """Nobody gets these now: what was set aside is so again."""
    for plan in plans:
        plan.share.undo(plan)
