"""One member of a group: alive as long as it renews its lease, and owner of its fair share of partitions.

Leases are compared by the monotonic clock, which all processes of the machine share: a step of the wall
clock moves no partition. After a reboot that clock starts again. Members from before it hold no lock any
more, so they are dead whatever their lease says.
"""

from __future__ import annotations

import os
import re
import sqlite3
from time import monotonic
from uuid import uuid4

from dragoman.adapters.embedded import groups
from dragoman.adapters.embedded.channels import ChannelFiles
from dragoman.adapters.embedded.groups import Member, Place
from dragoman.adapters.embedded.liveness import Pulse, bury, is_dead
from dragoman.adapters.embedded.options import Options
from dragoman.adapters.embedded.share import Share
from dragoman.core.broker import Subscription
from dragoman.core.partitioning import check_company, check_durability

CHECK_PULSES = 0.5


class Membership:
    def __init__(self, options: Options, subscription: Subscription, files: list[ChannelFiles]) -> None:
        self.team = subscription.group
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", subscription.member)[:40] or "member"
        self.id = f"{name}-{os.getpid()}-{uuid4().hex[:12]}"
        self.shares: dict[Place, Share] = {}
        self.version = -1
        self._options = options
        self._subscription = subscription
        self._files = {one.id: one for one in files}
        self._others: list[str] = []
        self._renew_at = 0.0
        self._check_pulses_at = 0.0
        self._pulse = Pulse(options.root, self.id)

    def admit(self, connection: sqlite3.Connection) -> None:
        """Found the group if need be. Raises ``GroupTaken`` where we would be one too many."""
        self._forget_temporary(connection)
        check_durability(self._subscription, groups.found(connection, self.team, self._subscription.durable))
        self._bury_the_dead(connection, monotonic())
        names = {id: files.name for id, files in self._files.items()}
        check_company(
            self._subscription,
            (
                (other.sharing, [names[each] for each in other.channels if each in names])
                for other in groups.members(connection, self.team)
            ),
        )

    def _forget_temporary(self, connection: sqlite3.Connection) -> None:
        """Groups that are not durable, and whose last member died without a word."""
        now = monotonic()
        for team in groups.temporary(connection):
            members = groups.members(connection, team)
            if all(self._is_gone(each, now) for each in members):
                for each in members:
                    groups.leave(connection, team, each.id)
                    bury(self._options.root, each.id)
                groups.forget(connection, team)

    def _is_gone(self, member: Member, now: float) -> bool:
        return member.lease < now or is_dead(self._options.root, member.id)

    def join(self, connection: sqlite3.Connection) -> None:
        self._join(connection, monotonic())
        self.balance(connection)

    def _join(self, connection: sqlite3.Connection, now: float) -> None:
        lease = now + self._options.lease
        groups.join(
            connection, self.team, Member(self.id, list(self._files), lease, self._subscription.sharing)
        )

    def due(self, now: float, version: int) -> bool:
        """Is there a reason to balance?"""
        if version != self.version or now >= self._renew_at:
            return True
        if any(share.leave_by is not None and self._leaves(share, now) for share in self.shares.values()):
            return True
        if now < self._check_pulses_at:
            return False
        self._check_pulses_at = now + CHECK_PULSES
        return any(is_dead(self._options.root, other) for other in self._others)

    def balance(self, connection: sqlite3.Connection) -> None:
        """Renew the lease, bury the dead, give up what is too much, claim what is free and ours to take."""
        now = monotonic()
        self._renew_at = now + self._options.lease / 3
        if not groups.renew(connection, self.id, now + self._options.lease):
            self._forget(list(self.shares))
            self.admit(connection)
            self._join(connection, now)
        self._bury_the_dead(connection, now)
        for channel, files in self._files.items():
            self._balance_channel(connection, channel, files, now)
        self.version = groups.version(connection, self.team)

    def _bury_the_dead(self, connection: sqlite3.Connection, now: float) -> None:
        self._others = []
        for other in groups.members(connection, self.team):
            if other.id == self.id:
                continue
            if self._is_gone(other, now):
                groups.leave(connection, self.team, other.id)
                bury(self._options.root, other.id)
            else:
                self._others.append(other.id)

    def _balance_channel(
        self, connection: sqlite3.Connection, channel: int, files: ChannelFiles, now: float
    ) -> None:
        owners = groups.owners(connection, self.team, channel)
        ours = {(channel, partition) for partition, owner in owners if owner == self.id}
        self._forget([place for place in self.shares if place[0] == channel and place not in ours])
        quota = groups.quota(connection, self.team, channel, self.id, len(owners))
        # A share that is ours in the database alone was dropped here after an error: it is claimed anew.
        for place in ours - self.shares.keys():
            self._claim(connection, place, files)
        self._give_up_surplus(connection, channel, len(ours) - quota, now)
        free = [(channel, partition) for partition, owner in owners if owner is None]
        for place in free[: max(0, quota - len(ours))]:
            self._claim(connection, place, files)

    def _give_up_surplus(
        self, connection: sqlite3.Connection, channel: int, surplus: int, now: float
    ) -> None:
        held = [share for place, share in self.shares.items() if place[0] == channel]
        held.sort(key=lambda share: (share.leave_by is None, share.progress.busy))
        keep = max(0, surplus)
        for share in held[keep:]:
            share.leave_by = None
        for share in held[:keep]:
            if share.leave_by is None:
                share.leave_by = now + self._options.handover
            if self._leaves(share, now):
                groups.give_up(connection, self.team, share.place)
                groups.announce(connection, self.team)
                self._forget([share.place])

    @staticmethod
    def _leaves(share: Share, now: float) -> bool:
        return not share.progress.busy or (share.leave_by is not None and share.leave_by <= now)

    def _claim(self, connection: sqlite3.Connection, place: Place, files: ChannelFiles) -> None:
        epoch, progress = groups.claim(connection, self.team, place, self.id)
        folder = files.partition_folder(place[1])
        self.shares[place] = Share(files.name, place, folder, files.bounds, epoch, progress)

    def save(self, connection: sqlite3.Connection, share: Share, asides: list[int]) -> bool:
        """Write down how far we are, and what became of those that stood aside.

        ``False`` if the share was taken from us: then it is forgotten.
        """
        if not groups.save(connection, self.team, share.place, self.id, share.epoch, share.progress):
            self._forget([share.place])
            return False
        groups.save_asides(connection, self.team, share.place, share.progress, asides)
        return True

    def forget_all(self) -> None:
        """After an error: what is in memory may differ from what is written down."""
        self._forget(list(self.shares))
        self.version = -1

    def _forget(self, places: list[Place]) -> None:
        for place in places:
            share = self.shares.pop(place, None)
            if share is not None:
                share.close()

    def leave(self, connection: sqlite3.Connection) -> None:
        groups.leave(connection, self.team, self.id)
        if not self._subscription.durable and not groups.members(connection, self.team):
            groups.forget(connection, self.team)

    def stop(self) -> None:
        self._forget(list(self.shares))
        self._pulse.stop()
