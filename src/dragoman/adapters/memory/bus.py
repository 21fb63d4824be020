"""What the brokers of one ``memory://name`` share: channels, groups, and messages that are not due yet."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dragoman.adapters.memory.group import Group
from dragoman.adapters.memory.partition import Partition
from dragoman.adapters.memory.share import Share
from dragoman.core.broker import Start, Subscription
from dragoman.core.channel import Channel
from dragoman.core.clock import Clock
from dragoman.core.errors import ChannelNotFound
from dragoman.core.message import Message, Position
from dragoman.core.partitioning import Partitioner, check_durability, start_at_offset

if TYPE_CHECKING:
    from dragoman.adapters.memory.receiver import MemoryReceiver


class Topic:
    """A channel with its partitions, and the receivers that wait for its next message."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.partitions = [Partition() for _ in range(channel.partitions)]
        self.waiting: set[MemoryReceiver] = set()
        self._partitioner = Partitioner(channel.name)
        self.trim_at = 0.0

    def choose(self, message: Message) -> int:
        return self._partitioner.choose(message, len(self.partitions))

    def trim(self, now: float) -> None:
        if self.channel.retention is None or now < self.trim_at:
            return
        self.trim_at = now + self.channel.retention / 10
        for partition in self.partitions:
            partition.drop_before(int((now - self.channel.retention) * 1000))


class Delayed(NamedTuple):
    due: float
    number: int
    message: Message


class Bus:
    """Every method is called with ``lock`` held: members may live in several threads."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.delayed: list[Delayed] = []
        self.users = 0
        self._numbers = count()
        clock.on_advance(self.wake_all)

    def topic(self, name: str) -> Topic:
        try:
            return self.topics[name]
        except KeyError:
            raise ChannelNotFound(
                f"There is no channel {name!r}.", next="Create it first.", channel=name
            ) from None

    def append(self, messages: Sequence[Message]) -> list[Position]:
        stamp = int(self.clock.now() * 1000)
        positions = []
        touched: dict[str, Topic] = {}
        for message in messages:
            name, payload, key, headers, _, _, timestamp, _ = message
            topic = touched.get(name)
            if topic is None:
                topic = touched[name] = self.topic(name)
            number = topic.choose(message)
            partition = topic.partitions[number]
            offset = partition.base + len(partition.messages)
            partition.messages.append(
                Message(
                    name, payload, key, headers, number, offset, stamp if timestamp is None else timestamp
                )
            )
            positions.append(Position(name, number, offset))
        for topic in touched.values():
            topic.trim(stamp / 1000)
            self.wake(topic.waiting)
        return positions

    def postpone(self, messages: Sequence[Message], due: float) -> None:
        for message in messages:
            self.topic(message.channel).choose(message)
        for message in messages:
            heapq.heappush(self.delayed, Delayed(due, next(self._numbers), message))
        self.wake_all()

    def bring_in_due(self, now: float) -> None:
        """Append what was published with a delay and is due by now."""
        ready = []
        while self.delayed and self.delayed[0].due <= now:
            ready.append(heapq.heappop(self.delayed).message)
        if ready:
            self.append(ready)

    def group(self, subscription: Subscription, lease: float, handover: float) -> Group:
        found = self.groups.get(subscription.group)
        if found is None:
            found = self.groups[subscription.group] = Group(lease, handover, subscription.durable)
        check_durability(subscription, found.durable)
        return found

    def forget_temporary(self, name: str, group: Group) -> None:
        """A group that is not durable goes with its last member."""
        if not group.durable and not group.members and self.groups.get(name) is group:
            del self.groups[name]

    def starts(self, channel: str, start: Start) -> list[int]:
        """Where a group that is new to the channel starts in each partition."""
        partitions = self.topic(channel).partitions
        if isinstance(start, int):
            return [partition.offset_at(start) for partition in partitions]
        if isinstance(start, Mapping):
            return start_at_offset(start, channel, [(each.base, each.end) for each in partitions])
        return [partition.base if start == "earliest" else partition.end for partition in partitions]

    def open_shares(self, group: Group, channel: str, offsets: Sequence[int]) -> None:
        """Give a group that is new to the channel its place in each partition."""
        if any(name == channel for name, _ in group.shares):
            return
        for number, partition in enumerate(self.topic(channel).partitions):
            group.shares[channel, number] = Share(partition, offsets[number])

    def grow_groups(self, channel: str) -> None:
        """Partitions were added: every group on the channel reads them from their beginning."""
        for group in self.groups.values():
            if (channel, 0) in group.shares:
                for number, partition in enumerate(self.topics[channel].partitions):
                    group.shares.setdefault((channel, number), Share(partition, 0))
                group.balance(self.clock.monotonic())

    def delete(self, channel: str) -> None:
        self.topic(channel)
        del self.topics[channel]
        self.delayed = [one for one in self.delayed if one.message.channel != channel]
        heapq.heapify(self.delayed)
        for group in self.groups.values():
            for place in [place for place in group.shares if place[0] == channel]:
                del group.shares[place]
            group.balance(self.clock.monotonic())

    def wake(self, receivers: Iterable[MemoryReceiver]) -> None:
        for receiver in tuple(receivers):
            receiver.wake()

    def wake_all(self) -> None:
        with self.lock:
            for topic in self.topics.values():
                self.wake(topic.waiting)
