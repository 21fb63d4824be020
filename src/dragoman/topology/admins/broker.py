"""Every broker is an admin: one channel for each topic and serializer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from dragoman.core.broker import Broker
from dragoman.core.channel import Channel
from dragoman.core.ending import end
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
    Unsupported,
)
from dragoman.core.loading import BROKERS, load, redacted, scheme_of
from dragoman.core.message import Message
from dragoman.topology.admin import Inlet, Wanted
from dragoman.topology.admins.intake import OF_CHANNELS, BrokerReceiver
from dragoman.topology.envelope import wrap
from dragoman.topology.parcel import Parcel, headers_of
from dragoman.topology.scoring import Profile, Score, weigh
from dragoman.topology.settings import LIBRARY_ORIGIN, SERIALIZER

log = logging.getLogger("dragoman.topology")

PROBE = 5.0
"""Seconds between two looks whether the broker answers, and how long an answer may take."""
PROBE_CHANNEL = "dragoman.topology.probe"

QOS = {"sample": 30, "control": 70}


class BrokerAdmin:
    """``type`` is the scheme of the broker's URL.

    Its own properties, such as ``kafka.partitions``: ``partitions`` and ``retention`` of the topic's channel,
    ``group`` for a subscriber that wants to find what came while it was away; all others are, for a
    publisher, settings of the channel, and for a subscriber, options of the subscription.
    """

    def __init__(self, broker: str | Broker, serializers: frozenset[str], probe: float = PROBE) -> None:
        made: Broker = load(BROKERS, scheme_of(broker))(broker) if isinstance(broker, str) else broker
        self._broker = made
        self._owns_broker = isinstance(broker, str)
        self.type = scheme_of(made.url)
        self.url = redacted(made.url)
        self._probe_every = probe
        self._trouble: str | None = "It is not started."
        self._changed: Callable[[], None] = lambda: None
        self._doubt = asyncio.Event()
        self._prober: asyncio.Task[None] | None = None
        can = made.capabilities
        self._profile = Profile(self.type, can.durable, can.new_groups_see_history, QOS, serializers)

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def start(self, changed: Callable[[], None]) -> None:
        await self._look()
        self._changed = changed
        self._prober = asyncio.create_task(self._probe(), name=f"dragoman probe {self.type}")

    def score(self, wanted: Wanted) -> Score:
        return weigh(self._profile, wanted.settings)

    async def sender(self, wanted: Wanted) -> BrokerSender:
        own = wanted.own(self.type)
        channel = f"{wanted.topic.key}.{wanted.setting(SERIALIZER)}"
        await self._provide(self._channel(channel, own), own)
        return BrokerSender(self._broker, channel, self.properties(channel), self._doubt.set)

    async def receiver(self, wanted: Wanted, inlet: Inlet) -> BrokerReceiver:
        """It listens at once wherever publishers may speak: nothing said from now on is missed.

        A subscriber that names its serializer has asked for that channel alone, until others are announced.
        """
        own = wanted.own(self.type)
        sizes: dict[str, str] = {name: own[name] for name in ("partitions", "retention") if name in own}
        receiver = BrokerReceiver(self._broker, wanted, own, inlet, lambda name: self._channel(name, sizes))
        serializer = wanted.settings[SERIALIZER]
        named = serializer.origin != LIBRARY_ORIGIN
        await receiver.listen([serializer.value] if named else sorted(self._profile.serializers))
        return receiver

    async def _provide(self, wanted: Channel, own: Mapping[str, str]) -> None:
        """A channel that a subscriber has made before gets what the publisher asks for."""
        if await self._broker.create(wanted) or not own:
            return
        found = await self._broker.describe(wanted.name)
        try:
            partitions = max(found.partitions, wanted.partitions)
            await self._broker.alter(replace(wanted, partitions=partitions))
        except Unsupported as error:
            log.info("The channel stays as it is.", extra={"channel": wanted.name, "why": error.what})

    def properties(self, channel: str) -> dict[str, str]:
        return {f"{self.type}.topic": channel, "broker.url": self.url}

    def _channel(self, name: str, own: Mapping[str, str]) -> Channel:
        settings = {key: value for key, value in own.items() if key not in OF_CHANNELS}
        try:
            retention = own.get("retention")
            return Channel(
                name,
                int(own.get("partitions", "1")),
                None if retention is None else float(retention),
                settings,
            )
        except ValueError as error:
            raise ConfigurationError(
                f"A number is needed for {self.type}.partitions and {self.type}.retention: {error}",
                code="topology.property",
                next="Correct it where it was given; 'dragoman topology explain' shows where.",
                channel=name,
            ) from error

    async def _probe(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._probe_every):
                    await self._doubt.wait()
            before = self._trouble
            await self._look()
            self._doubt.clear()
            if self._trouble != before and None in (self._trouble, before):
                log.log(
                    logging.INFO if self._trouble is None else logging.WARNING,
                    "A broker is there." if self._trouble is None else "A broker is gone.",
                    extra={"admin": self.type, "why": self._trouble},
                )
                self._changed()
            # A sender in distress asks again at once; the broker shall not be asked in a tight loop.
            await asyncio.sleep(min(0.2, self._probe_every))

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(max(PROBE, self._probe_every)):
                if self._trouble is not None:
                    await self._broker.connect()
                # Not there, or not for us to see: it answers, and that is all we ask.
                with contextlib.suppress(ChannelNotFound, AccessRefused):
                    await self._broker.describe(PROBE_CHANNEL)
            self._trouble = None
        except DragomanError as error:
            self._trouble = str(error)
        except TimeoutError:
            self._trouble = "The broker does not answer."
        except Exception as error:
            # The looking must go on whatever a driver does, else the broker would be away for good.
            log.exception("A broker could not be asked.", extra={"admin": self.type})
            self._trouble = repr(error)

    async def close(self) -> None:
        if self._prober is not None:
            await end(self._prober)
        if self._owns_broker:
            await self._broker.close()


class BrokerSender:
    def __init__(
        self, broker: Broker, channel: str, properties: Mapping[str, str], doubt: Callable[[], None]
    ) -> None:
        self.channel = channel
        self.properties = properties
        self._broker = broker
        self._headers = broker.capabilities.headers
        self._doubt = doubt

    async def send(self, parcel: Parcel) -> None:
        headers = headers_of(parcel)
        if self._headers:
            message = Message(self.channel, parcel.payload, None, headers)
        else:
            message = Message(self.channel, wrap(headers, parcel.payload))
        try:
            await self._broker.publish((message,))
        except BrokerUnavailable:
            self._doubt()
            raise

    async def close(self) -> None:
        """The channel stays: it may hold what others have not read yet."""
