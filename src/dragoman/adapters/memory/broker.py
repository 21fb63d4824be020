"""The broker in the memory of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from urllib.parse import unquote

from dragoman.adapters.memory.bus import Bus, Topic
from dragoman.adapters.memory.log import MemoryLogReader
from dragoman.adapters.memory.partition import Partition
from dragoman.adapters.memory.receiver import MemoryReceiver
from dragoman.core.broker import (
    Acknowledgement,
    Capabilities,
    Lag,
    Ordering,
    Sharing,
    Subscription,
    check_subscription,
)
from dragoman.core.channel import Channel
from dragoman.core.clock import Clock, SystemClock
from dragoman.core.errors import BrokerUnavailable, ConfigurationError
from dragoman.core.message import Message, Position
from dragoman.core.options import positive, read_options, refuse_options

BREATHER = 256
"""After so many messages a publisher lets the other tasks of its loop run."""

_buses: dict[str, Bus] = {}
_buses_lock = threading.Lock()


class MemoryBroker:
    """``memory://name``: partitions, groups, redelivery and delays as a real broker has them, in one process.

    All brokers of one name share their channels; these are gone when the last one closes. Made for tests and
    for programs of one process. Options: ``lease``, seconds until a silent member is out (30), and
    ``handover``, seconds that a member may take to finish what it holds when another one joins (30).

    Order: a partition's messages are delivered in the order of their offsets. ``release`` without a delay
    keeps it: the message and those in flight behind it come again, in order. ``release`` with a delay sets
    the message aside: the others go on at once, and it comes back out of order when it is due. Only the
    message that was named counts an attempt, not those given back with it.

    A ``clock`` that is moved by hand, a ``ManualClock``, makes delays and leases testable without waiting.
    """

    capabilities = Capabilities(
        durable=False,
        groups=True,
        ordering=Ordering.PARTITION,
        acknowledgement=Acknowledgement.CUMULATIVE,
        replay=True,
        new_groups_see_history=True,
        headers=True,
        keys=True,
        delayed_delivery=True,
        delivery_count=True,
        start_by_time=True,
        lag=True,
        sharing=frozenset(Sharing),
        temporary_groups=True,
        start_by_offset=True,
    )

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        options = read_options(url, {"lease": positive, "handover": positive})
        self.url = url
        self._name = unquote(url.partition("://")[2].partition("?")[0])
        self._lease: float = options.get("lease", 30.0)
        self._handover: float = options.get("handover", 30.0)
        self._clock = clock
        self._shared: Bus | None = None
        self._receivers: list[MemoryReceiver] = []
        self._since_breather = 0

    @property
    def clock(self) -> Clock:
        """The clock of all brokers of this name: clients of them run by it, too."""
        return self._bus.clock

    @property
    def delayed(self) -> int:
        """How many messages were published with a delay and are not due yet."""
        return len(self._bus.delayed)

    async def connect(self) -> None:
        if self._shared is None:
            self._shared = self._join()

    def _join(self) -> Bus:
        with _buses_lock:
            bus = _buses.get(self._name)
            if bus is None:
                bus = _buses[self._name] = Bus(self._clock or SystemClock())
            elif self._clock is not None and bus.clock is not self._clock:
                raise ConfigurationError(
                    "This memory broker runs by another clock.",
                    next="Give all brokers of one name the same clock, or another name.",
                    url=self.url,
                )
            bus.users += 1
            return bus

    async def close(self) -> None:
        for receiver in self._receivers:
            await receiver.close()
        self._receivers.clear()
        bus, self._shared = self._shared, None
        if bus is None:
            return
        with _buses_lock:
            bus.users -= 1
            if not bus.users:
                del _buses[self._name]

    @property
    def _bus(self) -> Bus:
        if self._shared is None:
            raise BrokerUnavailable("The memory broker is not connected.", next="Call connect() first.")
        return self._shared

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        bus = self._bus
        with bus.lock:
            if delay > 0:
                bus.postpone(messages, bus.clock.monotonic() + delay)
                return [None] * len(messages)
            positions = bus.append(messages)
        self._since_breather += len(positions)
        if self._since_breather >= BREATHER:
            self._since_breather = 0
            await asyncio.sleep(0)
        return positions

    async def subscribe(self, subscription: Subscription) -> MemoryReceiver:
        check_subscription(subscription, self.capabilities, "memory")
        refuse_options(subscription)
        bus = self._bus
        with bus.lock:
            now = bus.clock.monotonic()
            starts = {channel: bus.starts(channel, subscription.start) for channel in subscription.channels}
            group = bus.group(subscription, self._lease, self._handover)
            group.admit(subscription, now)
            for channel, offsets in starts.items():
                bus.open_shares(group, channel, offsets)
            receiver = MemoryReceiver(bus, group, subscription)
            group.join(receiver, now)
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        return receiver

    async def create(self, channel: Channel) -> bool:
        bus = self._bus
        with bus.lock:
            if channel.name in bus.topics:
                return False
            bus.topics[channel.name] = Topic(channel)
            return True

    async def describe(self, channel: str) -> Channel:
        bus = self._bus
        with bus.lock:
            return bus.topic(channel).channel

    async def alter(self, channel: Channel) -> None:
        bus = self._bus
        with bus.lock:
            topic = bus.topic(channel.name)
            more = channel.partitions - len(topic.partitions)
            if more < 0:
                raise ConfigurationError(
                    f"{len(topic.partitions)} partitions cannot become {channel.partitions}.",
                    next="Partitions may grow, never shrink.",
                    channel=channel.name,
                )
            topic.partitions.extend(Partition() for _ in range(more))
            topic.channel = channel
            topic.trim_at = 0.0
            bus.grow_groups(channel.name)

    async def delete(self, channel: str) -> None:
        bus = self._bus
        with bus.lock:
            bus.delete(channel)

    async def channels(self) -> Sequence[str]:
        bus = self._bus
        with bus.lock:
            return sorted(bus.topics)

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        bus = self._bus
        with bus.lock:
            bus.topic(channel)
            return [
                Lag(name, channel, partition, share.progress.committed, share.log.end)
                for name, one in sorted(bus.groups.items())
                if group is None or group == name
                for (place, partition), share in sorted(one.shares.items(), key=lambda item: item[0])
                if place == channel
            ]

    def log(self) -> MemoryLogReader:
        shared = self._shared

        def find() -> Bus:
            if shared is not None:
                return shared
            with _buses_lock:
                return _buses.get(self._name) or Bus(SystemClock())

        return MemoryLogReader(find)
