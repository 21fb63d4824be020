"""The RabbitMQ broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dragoman.adapters.rabbitmq import names, positions, streams
from dragoman.adapters.rabbitmq.catalog import Catalog
from dragoman.adapters.rabbitmq.channels import Channels
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.log import RabbitmqLogReader
from dragoman.adapters.rabbitmq.options import options_of
from dragoman.adapters.rabbitmq.publisher import Publisher
from dragoman.adapters.rabbitmq.receiver import RabbitmqReceiver
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
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options


class RabbitmqBroker:
    """``rabbitmq://user:password@host:port/vhost``: AMQP 0.9.1 to RabbitMQ 3.10 or later.

    A channel is a direct exchange of its name, and per partition a stream bound to it: every group reads the
    same log, from wherever it likes, and others may bind queues of their own to the exchange. A group's place
    in a partition is the last record of a small stream; who may read the partition holds an exclusive queue.
    Options: see ``Options``.

    What ``publish`` returned for is confirmed by the server. Order: a partition's messages are delivered in
    the order of their offsets. ``release`` without a delay keeps it; with a delay the message is set aside
    and comes back out of order when it is due. Messages published with a delay wait in a quorum queue of
    that delay, and enter the log when they are due.
    """

    capabilities = Capabilities(
        durable=True,
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

    def __init__(self, url: str) -> None:
        self.url = url
        self._options = options_of(url)
        if not self._options.count_deliveries:
            self.capabilities = _uncounted(self.capabilities)
        self._opened: Link | None = None
        self._receivers: list[RabbitmqReceiver] = []

    async def connect(self) -> None:
        if self._opened is not None:
            return
        link = Link(self._options)
        catalog = Catalog(link)
        try:
            await link.open()
            await catalog.open()
        except BaseException:
            await link.close()
            raise
        self._opened = link
        self._catalog = catalog
        self._channels = Channels(link, catalog)
        self._publisher = Publisher(link, catalog)

    @property
    def _link(self) -> Link:
        if self._opened is None:
            raise BrokerUnavailable("The RabbitMQ broker is not connected.", next="Call connect() first.")
        return self._opened

    async def _ready(self) -> None:
        """A lost connection is made again, within the option ``timeout``."""
        await self._link.open(self._options.timeout)

    async def close(self) -> None:
        link, self._opened = self._opened, None
        if link is None:
            return
        await asyncio.gather(*(receiver.close() for receiver in self._receivers))
        self._receivers.clear()
        await self._publisher.close()
        await link.close()

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        """The server confirms, but does not tell offsets: the positions are ``None``."""
        await self._ready()
        await self._publisher.publish(messages, delay)
        return [None] * len(messages)

    async def subscribe(self, subscription: Subscription) -> RabbitmqReceiver:
        check_subscription(subscription, self.capabilities, "rabbitmq")
        refuse_options(subscription)
        await self._ready()
        receiver = RabbitmqReceiver(Link(self._options), self._catalog, subscription)
        try:
            await receiver.open()
        except BaseException:
            await receiver.close()
            raise
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        return receiver

    async def create(self, channel: Channel) -> bool:
        await self._ready()
        return await self._channels.create(channel)

    async def describe(self, channel: str) -> Channel:
        await self._ready()
        return (await self._catalog.entry(channel)).channel

    async def alter(self, channel: Channel) -> None:
        await self._ready()
        await self._channels.alter(channel)

    async def delete(self, channel: str) -> None:
        await self._ready()
        await self._channels.delete(channel)

    async def channels(self) -> Sequence[str]:
        await self._ready()
        return await self._catalog.channels()

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        """Of the durable groups: nobody waits for what a temporary one has not done."""
        await self._ready()
        entry = await self._catalog.entry(channel)
        return [
            await self._lag_of(channel, partition, name, one.start(partition))
            for name, one in sorted(entry.groups.items())
            if group is None or group == name
            for partition in range(entry.channel.partitions)
        ]

    async def _lag_of(self, channel: str, partition: int, group: str, start: int) -> Lag:
        base, end = await streams.bounds(self._link, names.stream(channel, partition))
        record = await positions.load(self._link, names.position(channel, partition, group, ""), False)
        committed = start if record is None else positions.read(record).committed
        return Lag(group, channel, partition, max(base, committed), end)

    def log(self) -> RabbitmqLogReader:
        return RabbitmqLogReader(self.url)


def _uncounted(capabilities: Capabilities) -> Capabilities:
    return replace(capabilities, delivery_count=False)
