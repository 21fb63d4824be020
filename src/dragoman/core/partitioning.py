"""Which partition a key goes to, and how a group's members share the partitions.

Brokers that partition by themselves have their own ways; ours, in memory and embedded, agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from dragoman.core.errors import ConfigurationError
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
