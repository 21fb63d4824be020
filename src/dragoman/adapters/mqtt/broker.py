"""Messages by way of an MQTT server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from dragoman.adapters.mqtt import channels as declarations
from dragoman.adapters.mqtt.channels import Declared, level, name_of
from dragoman.adapters.mqtt.connection import Outgoing, open_connection
from dragoman.adapters.mqtt.content import ENVELOPE, PROPERTIES, to_envelope, to_properties
from dragoman.adapters.mqtt.control import Control
from dragoman.adapters.mqtt.options import options_of
from dragoman.adapters.mqtt.receiver import MqttReceiver, Surroundings
from dragoman.adapters.mqtt.saving import Saver
from dragoman.adapters.mqtt.sessions import add_seats, end_sessions
from dragoman.adapters.mqtt.wire import V5, Connect, Will
from dragoman.core.broker import (
    Acknowledgement,
    Capabilities,
    Lag,
    LogReader,
    Ordering,
    Sharing,
    Subscription,
    check_subscription,
)
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    Unsupported,
)
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options
from dragoman.core.partitioning import Partitioner

NO_PROPERTIES = b"\0"


class MqttBroker:
    """``mqtt://host:1883``: MQTT 5, or 3.1.1 with ``version=3.1.1``.

    A channel is declared by a retained message below ``dragoman/channels``; a partition is a topic. A group
    has a session for each partition; its members divide them, and take over those of members that leave or
    die. A channel with the setting ``topic`` stands for a topic of other programs: it has no partitions, and
    its groups use the server's shared subscriptions, which keep no order.
    """

    capabilities = Capabilities(
        durable=True,
        groups=True,
        ordering=Ordering.PARTITION,
        acknowledgement=Acknowledgement.CUMULATIVE,
        replay=False,
        new_groups_see_history=False,
        headers=True,
        keys=True,
        delayed_delivery=False,
        delivery_count=False,
        sharing=frozenset(Sharing),
        temporary_groups=True,
    )

    def __init__(self, url: str) -> None:
        self.url = url
        self._options = options = options_of(url)
        if options.version != V5:
            # Sessions of 3.1.1 have no expiry: they are kept for ever, or go with the connection.
            self.capabilities = replace(self.capabilities, temporary_groups=False)
        if options.confirm != "saved":
            self.capabilities = replace(self.capabilities, durable=False)
        self._control: Control | None = None
        self._sender: Saver | None = None
        self._opening = asyncio.Lock()
        self._channels: dict[str, Declared] = {}
        self._partitioners: dict[str, Partitioner] = {}
        self._receivers: list[MqttReceiver] = []
        self._place = f"{options.prefix}/channels"

    async def connect(self) -> None:
        if self._control is not None:
            return
        control = Control(self._options, self._will())
        await control.open()
        try:
            await control.watch(f"{self._place}/+", self, self._told, self._channels.clear)
            await control.sync()
        except BaseException:
            await control.close()
            raise
        self._control = control

    def _will(self) -> Will | None:
        options = self._options
        if options.will_channel is None:
            return None
        return Will(level(options.will_channel), options.will_payload.encode(), options.qos)

    def _told(self, topic: str, payload: bytes) -> None:
        name = name_of(topic.rpartition("/")[2])
        declared = declarations.read(name, payload) if payload else None
        if declared is None:
            self._channels.pop(name, None)
        else:
            self._channels[name] = declared

    async def close(self) -> None:
        for receiver in self._receivers:
            await receiver.close()
        self._receivers.clear()
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.connection.close()
        control, self._control = self._control, None
        if control is not None:
            await control.close()

    @property
    def _station(self) -> Control:
        if self._control is None:
            raise BrokerUnavailable("The MQTT broker is not connected.", next="Call connect() first.")
        return self._control

    async def _channel(self, name: str) -> Declared:
        """Asks the server once more for one that is not known."""
        found = self._channels.get(name)
        if found is None:
            await self._station.sync()
            found = self._channels.get(name)
        if found is None:
            raise ChannelNotFound("There is no such channel.", next="Create it first.", channel=name)
        return found

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if delay > 0:
            raise Unsupported("mqtt:// has no delayed delivery.", next="Publish when it is time.")
        places = {name: await self._channel(name) for name in {message.channel for message in messages}}
        await self._send(await self._sending(), self._outgoing(messages, places))
        return [None] * len(messages)

    async def _send(self, sender: Saver, outgoing: Iterator[Outgoing]) -> None:
        taken = await sender.connection.send(outgoing)
        if self._options.confirm != "saved":
            await taken
        elif self._options.qos == 1:
            saved = sender.ask()
            await taken
            await asyncio.shield(saved)
        else:
            # The server passes these on with the last word about them, so they can be saved only after it.
            await taken
            await asyncio.shield(sender.ask())

    def _outgoing(self, messages: Sequence[Message], places: dict[str, Declared]) -> Iterator[Outgoing]:
        modern, qos = self._options.version == V5, self._options.qos
        for message in messages:
            place = places[message.channel]
            if place.has_wildcards:
                _refuse(message, place)
            topic = place.raw_topics[self._partition(message, len(place.raw_topics))]
            if place.content == ENVELOPE:
                extra = NO_PROPERTIES if modern else b""
                yield Outgoing(topic, to_envelope(message), qos, place.retain, extra)
            elif modern:
                extra = to_properties(message, place.expiry)
                yield Outgoing(topic, message.payload or b"", qos, place.retain, extra)
            else:
                yield Outgoing(topic, _bare(message), qos, place.retain, b"")

    def _partition(self, message: Message, partitions: int) -> int:
        partitioner = self._partitioners.get(message.channel)
        if partitioner is None:
            partitioner = self._partitioners[message.channel] = Partitioner(message.channel)
        return partitioner.choose(message, partitions)

    async def _sending(self) -> Saver:
        """The connection for publishing, opened anew after a loss."""
        async with self._opening:
            if self._sender is None or self._sender.connection.ended is not None:
                options = self._options
                greeting = Connect("", True, options.keep_alive, options.username, options.password)
                self._sender = Saver(options, await open_connection(options, greeting, _unasked, _unasked))
            return self._sender

    async def subscribe(self, subscription: Subscription) -> MqttReceiver:
        check_subscription(subscription, self.capabilities, "mqtt")
        refuse_options(subscription)
        channels = {name: await self._channel(name) for name in subscription.channels}
        for name, declared in channels.items():
            if declared.foreign and subscription.sharing is Sharing.KEY_SHARED:
                raise Unsupported("Topics of other programs have no keys.", next="Use shared.", channel=name)
        receiver = MqttReceiver(Surroundings(self._options, self._station, channels), subscription)
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        try:
            await receiver.open()
        except BaseException:
            await receiver.close()
            raise
        return receiver

    async def create(self, channel: Channel) -> bool:
        declared = declarations.declare(channel, self._content())
        await self._station.sync()
        if channel.name in self._channels:
            return False
        await self._declare(declared)
        return True

    def _content(self) -> str:
        return PROPERTIES if self._options.version == V5 else ENVELOPE

    async def _declare(self, declared: Declared) -> None:
        name = declared.channel.name
        await self._station.put(f"{self._place}/{level(name)}", declarations.written(declared))
        self._channels[name] = declared

    async def describe(self, channel: str) -> Channel:
        await self._station.sync()
        return (await self._channel(channel)).channel

    async def alter(self, channel: Channel) -> None:
        await self._station.sync()
        old = await self._channel(channel.name)
        if channel.partitions < old.channel.partitions:
            raise ConfigurationError(
                f"{old.channel.partitions} partitions cannot become {channel.partitions}.",
                next="Partitions may grow, never shrink.",
                channel=channel.name,
            )
        declared = declarations.declare(channel, old.content)
        if (declared.content, declared.topic) != (old.content, old.topic):
            raise ConfigurationError(
                "The topic and the content of a channel cannot be changed.",
                next="Messages of both kinds would be under way. Create another channel.",
                channel=channel.name,
            )
        for number in range(old.channel.partitions, channel.partitions):
            # Before anybody publishes there: what no session is subscribed to is lost.
            await add_seats(self._options, self._station, declared, number)
        await self._declare(declared)

    async def delete(self, channel: str) -> None:
        """With it go its retained message and what the groups have not handled."""
        await self._station.sync()
        declared = await self._channel(channel)
        await self._station.put(f"{self._place}/{level(channel)}", b"")
        self._channels.pop(channel, None)
        if declared.retain and not declared.has_wildcards:
            for topic in declared.raw_topics:
                await self._station.put(topic[2:].decode(), b"")
        await end_sessions(self._options, self._station, channel)

    async def channels(self) -> Sequence[str]:
        await self._station.sync()
        return sorted(self._channels)

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        raise Unsupported(
            "mqtt:// does not know how far a group is.",
            next="The server may tell below $SYS.",
            channel=channel,
        )

    def log(self) -> LogReader:
        raise Unsupported(
            "mqtt:// keeps no history.",
            next="Bring the channel to a broker that does: dragoman channel bridge.",
        )


def _bare(message: Message) -> bytes:
    if message.key is not None or message.headers or message.payload is None:
        raise Unsupported(
            "MQTT 3.1.1 has no place for keys, headers and missing payloads in this channel.",
            next="Create it with the setting content=envelope, or use version=5.",
            channel=message.channel,
        )
    return message.payload


def _refuse(message: Message, place: Declared) -> NoReturn:
    raise ConfigurationError(
        f"One cannot publish to the topic {place.topic!r}.",
        next="Its channel is for receiving. Declare one with the exact topic.",
        channel=message.channel,
    )


def _unasked(_: object) -> None:
    """Nothing comes by a connection that only sends; that it is lost is seen when it is used."""
