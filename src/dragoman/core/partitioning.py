"""Which partition a key goes to, and how a group's members share the partitions.

Brokers that partition by themselves have their own ways; ours, in memory and embedded, agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from dragoman.core.broker import Sharing, Subscription
from dragoman.core.errors import ConfigurationError, GroupTaken
from dragoman.core.message import Message

STICKY_RUN = 1000
"""So many messages without a key go to one partition before the next one has its turn."""


def partition_of(key: bytes, partitions: int) -> int:
    """Stable over processes, machines and versions: the order of a key rests on it."""
    return crc32(key) % partitions


class Partitioner:
    """Which partition of one channel each message of one sender goes to."""

    __slots__ = ("_channel", "_sent_without_key")

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._sent_without_key = 0

    def choose(self, message: Message, partitions: int) -> int:
        """The partition it names, else that of its key, else whose turn it is."""
        if message.partition is not None:
            if 0 <= message.partition < partitions:
                return message.partition
            raise ConfigurationError(
                f"There is no partition {message.partition}.",
                next=f"The channel has {partitions}, counted from 0.",
                channel=self._channel,
            )
        if message.key is not None:
            return partition_of(message.key, partitions)
        self._sent_without_key += 1
        return self._sent_without_key // STICKY_RUN % partitions


def fair_shares(channel: str, partitions: int, members: Sequence[str]) -> dict[str, int]:
    """How many of a channel's partitions each member should hold.

    Every member that sees the same others gets the same answer. Who has one more than the others differs
    from channel to channel, so that many small channels do not all land on the first member.
    """
    if not members:
        return {}
    ranked = sorted(members)
    turn = crc32(channel.encode()) % len(ranked)
    ranked = ranked[turn:] + ranked[:turn]
    each, more = divmod(partitions, len(ranked))
    return {member: each + (rank < more) for rank, member in enumerate(ranked)}


def shares_of(sharing: Sharing, channel: str, partitions: int, members: Sequence[str]) -> dict[str, int]:
    """The same for any way of sharing. ``members`` come in the order in which they joined."""
    if sharing is Sharing.FAILOVER:
        return {member: partitions if rank == 0 else 0 for rank, member in enumerate(members)}
    return fair_shares(channel, partitions, members)


def check_company(subscription: Subscription, others: Iterable[tuple[Sharing, Iterable[str]]]) -> None:
    """May it join these members, each with its way of sharing and its channels? They meet on a channel."""
    for sharing, channels in others:
        if not set(channels) & set(subscription.channels):
            continue
        if Sharing.EXCLUSIVE in (sharing, subscription.sharing):
            raise GroupTaken(
                f"The group {subscription.group!r} has a member already, and is not shared.",
                next="Stop that one, choose another group, or share it.",
                group=subscription.group,
            )
        if sharing is not subscription.sharing:
            raise ConfigurationError(
                f"The members of the group {subscription.group!r} use sharing {sharing}.",
                code="configuration.sharing",
                next=f"Use the same, or another group for sharing {subscription.sharing}.",
                group=subscription.group,
            )


def check_durability(subscription: Subscription, durable: bool) -> None:
    """A group that exists is durable, or it is not, whoever joins."""
    if subscription.durable is not durable:
        raise ConfigurationError(
            f"The group {subscription.group!r} is {'durable' if durable else 'temporary'} already.",
            code="configuration.durability",
            next="Join it as it is, or choose another group.",
            group=subscription.group,
        )


def start_at_offset(offsets: Mapping[int, int], channel: str, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """Where a group starts in each partition, kept within what the partition has."""
    unknown = sorted(number for number in offsets if not 0 <= number < len(bounds))
    if unknown:
        raise ConfigurationError(
            f"There is no partition {unknown[0]} to start in.",
            next=f"The channel has {len(bounds)}, counted from 0.",
            channel=channel,
        )
    return [min(max(offsets.get(number, base), base), end) for number, (base, end) in enumerate(bounds)]
