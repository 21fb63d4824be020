"""Receiving a topic from a broker: one subscription for each channel that publishers use."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from dragoman.client.burial import burial
from dragoman.client.consumer import Consumer, Pace
from dragoman.client.delivery import Delivery, Route
from dragoman.client.lane import Intake
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome, again
from dragoman.client.pausing import Pauses
from dragoman.core.broker import Broker, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, DecodeError, MessageError, RegistryUnavailable
from dragoman.core.message import Message
from dragoman.topology.admin import Inlet, Wanted
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.envelope import unwrap
from dragoman.topology.parcel import parcel_of
from dragoman.topology.settings import LATE_JOINER, QUEUE

log = logging.getLogger("dragoman.topology")

ATTEMPTS = 3
"""Calls of a failing subscriber, before the message goes to the dead letters."""
NOBODY = 0.1
"""Seconds between two looks whether a subscriber is there again: in order is better than soon."""
WINDOW = 512
OF_CHANNELS = frozenset({"group", "partitions", "retention"})
"""Own properties that are no options of the subscription."""
DRAIN = 10.0


class BrokerReceiver:
    """Publishers that use one serializer share a channel. Some channels are listened to always, the others as
    long as a publisher that uses them is there."""

    def __init__(
        self,
        broker: Broker,
        wanted: Wanted,
        own: Mapping[str, str],
        inlet: Inlet,
        channel: Callable[[str], Channel],
    ) -> None:
        self.properties: Mapping[str, str] = {}
        self._broker = broker
        self._wanted = wanted
        self._options = {name: value for name, value in own.items() if name not in OF_CHANNELS}
        # The same for all receivers of the topic in this program: one that replaces another goes on where it
        # has stopped.
        program = f"{wanted.framework}-{hashlib.sha256(wanted.topic.path.encode()).hexdigest()[:12]}"
        self._durable = "group" in own or not broker.capabilities.temporary_groups
        self._group = own.get("group", program)
        self._inlet = inlet
        self._channel = channel
        self._consumers: dict[str, Consumer] = {}
        self._pauses = Pauses()
        self._users: dict[str, set[str]] = {}
        self._always: Mapping[str, str] = {}

    async def listen(self, serializers: Iterable[str]) -> None:
        """To the channels of these serializers, whether or not a publisher is known."""
        self._always = {f"{self._wanted.topic.key}.{each}": each for each in serializers}
        await self._open(self._always)

    async def connect(self, publisher: Endpoint) -> None:
        channel = self._channel_of(publisher)
        if channel not in self._consumers:
            await self._open({channel: publisher.serializer or ""})
        self._users.setdefault(channel, set()).add(publisher.id)

    async def disconnect(self, publisher: Endpoint) -> None:
        channel = self._channel_of(publisher)
        users = self._users.get(channel, set())
        users.discard(publisher.id)
        if not users and channel not in self._always:
            self._users.pop(channel, None)
            consumer = self._consumers.pop(channel, None)
            if consumer is not None:
                await consumer.stop()

    async def close(self) -> None:
        self._pauses.end()
        consumers, self._consumers = dict.fromkeys(self._consumers.values()), {}
        for consumer in consumers:
            await consumer.stop()

    def _channel_of(self, publisher: Endpoint) -> str:
        told = publisher.more.get(f"{publisher.admin}.topic")
        return told or f"{publisher.topic.key}.{publisher.serializer}"

    async def _open(self, channels: Mapping[str, str]) -> None:
        """One subscription to channels, each with its serializer."""
        for channel in channels:
            await self._broker.create(self._channel(channel))
        wanted = self._wanted
        subscription = Subscription(
            tuple(channels),
            self._group,
            start="earliest" if LATE_JOINER in wanted.settings else "latest",
            member=wanted.id,
            durable=self._durable,
            options=self._options,
        )
        intakes = {
            channel: Intake(self._handler(serializer, subscription.group), 1, ChannelMetrics())
            for channel, serializer in channels.items()
        }
        window = min(WINDOW, int(wanted.setting(QUEUE)))
        consumer = Consumer(self._broker, subscription, intakes, Pace(window, DRAIN), self._pauses)
        await consumer.subscribe()
        consumer.start()
        self._consumers |= dict.fromkeys(channels, consumer)

    def _handler(self, serializer: str, group: str) -> Callable[[Message], Awaitable[Outcome]]:
        bury = burial(self._broker)
        headers = self._broker.capabilities.headers

        async def handle(message: Message) -> Outcome:
            while not self._inlet.expects():
                if not await self._pauses(NOBODY):
                    return again()
            try:
                if message.payload is None:
                    raise DecodeError("The message has no payload.", code="message.tombstone")
                pairs, payload = (message.headers, message.payload) if headers else unwrap(message.payload)
                await self._inlet.deliver(parcel_of(payload, pairs), serializer, ATTEMPTS)
            except (RegistryUnavailable, BrokerUnavailable):
                return again(1.0)
            except Exception as error:
                suffix = "invalid" if isinstance(error, MessageError) else "dead"
                route = Route(f"subscriber of {self._wanted.topic}", group, lambda frame: frame)
                target = f"{message.channel}.{suffix}"
                await self._broker.create(self._channel(target))
                await bury(Delivery(message, route), target, error)
            return DONE

        return handle
