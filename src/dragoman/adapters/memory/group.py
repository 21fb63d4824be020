"""A consumer group: its members, and which of them owns which partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dragoman.adapters.memory.share import Share
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.partitioning import check_company, shares_of

if TYPE_CHECKING:
    from dragoman.adapters.memory.receiver import MemoryReceiver

Place = tuple[str, int]


class Group:
    """Members hold about the same number of partitions of each channel they subscribe to.

    A member that holds too many gives up idle ones at once, busy ones when their messages are finished, at
    the latest after ``handover`` seconds. A member that was not heard of for ``lease`` seconds is out.
    """

    def __init__(self, lease: float, handover: float, durable: bool = True) -> None:
        self.lease = lease
        self.handover = handover
        self.durable = durable
        self.members: list[MemoryReceiver] = []
        self.shares: dict[Place, Share] = {}
        self.unsettled = False

    def admit(self, subscription: Subscription, now: float) -> None:
        """Raises ``GroupTaken`` where it would be one too many."""
        self._bury_the_dead(now)
        check_company(
            subscription, ((one.subscription.sharing, one.subscription.channels) for one in self.members)
        )

    def join(self, member: MemoryReceiver, now: float) -> None:
        self.members.append(member)
        self.balance(now)

    def leave(self, member: MemoryReceiver, now: float) -> None:
        if member not in self.members:
            return
        self.members.remove(member)
        member.assign({})
        for share in self.shares.values():
            if share.owner is member:
                share.abandon()
        self.balance(now)

    def settle(self, now: float) -> None:
        """Bury the dead, and finish the handovers that are due. Cheap when there is nothing to do."""
        if len(self.members) > 1:
            self._bury_the_dead(now)
        if self.unsettled:
            self.balance(now)

    def _bury_the_dead(self, now: float) -> None:
        for member in [one for one in self.members if one.silent_since(now) > self.lease]:
            self.leave(member, now)

    def balance(self, now: float) -> None:
        self.unsettled = False
        by_channel: dict[str, list[Share]] = {}
        for (channel, _), share in sorted(self.shares.items()):
            by_channel.setdefault(channel, []).append(share)
        for channel, shares in by_channel.items():
            self._balance_channel(channel, shares, now)
        for member in self.members:
            member.assign({place: share for place, share in self.shares.items() if share.owner is member})

    def _balance_channel(self, channel: str, shares: list[Share], now: float) -> None:
        members = {one.id: one for one in self.members if channel in one.subscription.channels}
        sharing = next((one.subscription.sharing for one in members.values()), Sharing.SHARED)
        fair = shares_of(sharing, channel, len(shares), list(members))
        for name, member in members.items():
            owned = [share for share in shares if share.owner is member]
            owned.sort(key=lambda share: (share.leave_by is None, share.progress.busy))
            surplus = max(0, len(owned) - fair[name])
            for share in owned[surplus:]:
                share.leave_by = None
            for share in owned[:surplus]:
                self._give_up(share, now)
        free = [share for share in shares if share.owner is None]
        for name, member in members.items():
            held = sum(share.owner is member for share in shares)
            for share in free[: max(0, fair[name] - held)]:
                share.owner = member
            free = [share for share in free if share.owner is None]

    def _give_up(self, share: Share, now: float) -> None:
        if share.leave_by is None:
            share.leave_by = now + self.handover
        if not share.progress.busy or share.leave_by <= now:
            share.abandon()
        else:
            self.unsettled = True

    def next_event(self, now: float) -> float:
        """Seconds until a silent member may be out or a handover is due."""
        if len(self.members) == 1:
            return self.lease
        moments: Iterable[float] = (share.leave_by for share in self.shares.values() if share.leave_by)
        wait = min((moment - now for moment in moments), default=self.lease)
        return min(wait, self.lease)
