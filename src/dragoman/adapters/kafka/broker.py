"""Kafka behind the broker port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from dragoman.adapters.kafka.administration import Administration
from dragoman.adapters.kafka.configuration import read_settings
from dragoman.adapters.kafka.log import KafkaLogReader
from dragoman.adapters.kafka.ownership import Ownership
from dragoman.adapters.kafka.receiving import KafkaReceiver
from dragoman.adapters.kafka.sending import Sender
from dragoman.adapters.kafka.subscribing import consumer_settings, settle, starts
from dragoman.adapters.kafka.transacting import Transactions
from dragoman.core.broker import (
    Acknowledgement,
    Capabilities,
    Lag,
    Ordering,
    Receiver,
    Sharing,
    Subscription,
    check_subscription,
)
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    GroupTaken,
    Unsupported,
)
from dragoman.core.message import Message, Position

R = TypeVar("R")

_OWNED = (Sharing.FAILOVER, Sharing.EXCLUSIVE)
SETTLING = 60.0
"""Seconds in which it is known who has an exclusive group, once no dead member counts any more."""


class KafkaBroker:
    """``kafka://host:9092``: a channel is a topic, a group a consumer group.

    Producing is idempotent with all acknowledgements; groups rebalance cooperatively, or with
    ``group.protocol=consumer`` by the server. Messages cannot wait in Kafka: a delay on ``publish`` is
    refused, a delay on ``release`` holds the partition up. Implements ``Transactional`` too.
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
        delayed_delivery=False,
        delivery_count=False,
        transactions=True,
        start_by_time=True,
        lag=True,
        sharing=frozenset(Sharing),
        temporary_groups=True,
        start_by_offset=True,
    )

    def __init__(self, url: str) -> None:
        self.url = url
        self._settings = read_settings(url)
        self._administration: Administration | None = None
        self._sender: Sender | None = None
        self._transactions: Transactions | None = None
        self._receivers: list[KafkaReceiver] = []

    async def connect(self) -> None:
        if self._administration is not None:
            return
        administration = Administration(self._settings.common)
        await asyncio.to_thread(administration.reach)
        self._sender = Sender(self._settings.for_producing(), administration)
        self._transactions = Transactions(self._settings.for_producing(), administration)
        self._administration = administration

    async def close(self) -> None:
        await asyncio.gather(*(receiver.close() for receiver in self._receivers))
        self._receivers.clear()
        sender, self._sender = self._sender, None
        transactions, self._transactions = self._transactions, None
        if sender is not None:
            await asyncio.to_thread(sender.close)
        if transactions is not None:
            await transactions.close()
        self._administration = None

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if delay > 0:
            raise Unsupported("Kafka cannot keep messages for later.", next="Publish without a delay.")
        if self._sender is None:
            raise _unconnected()
        return await self._sender.send(messages)

    async def subscribe(self, subscription: Subscription) -> KafkaReceiver:
        check_subscription(subscription, self.capabilities, "kafka")
        owned = subscription.sharing in _OWNED
        settings = consumer_settings(self._settings.for_consuming(), subscription, owned)
        await self._admin(settle, subscription)
        farewell = None if subscription.durable else await self._admin(_forgetting, subscription.group)
        begin = await self._admin(starts, subscription)
        ownership = await self._admin(_ownership, subscription.channels) if owned else None
        receiver = KafkaReceiver(
            settings, subscription, begin, self._settings.handover, self._room, ownership, farewell
        )
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        if subscription.sharing is Sharing.EXCLUSIVE:
            await self._insist(receiver, SETTLING + settings["session.timeout.ms"] / 1000)
        return receiver

    def _room(self) -> int:
        """Bytes that each receiver may queue: half of the limit, in equal parts.

        The other half is for what the drivers hold, and for what comes at once when a queue is almost full.
        """
        count = sum(not receiver.closed for receiver in self._receivers)
        return self._settings.read_ahead_bytes // 2 // max(count, 1)

    async def _insist(self, receiver: KafkaReceiver, patience: float) -> None:
        """Until the group is ours, or settled and another's."""
        deadline = time.monotonic() + patience
        try:
            while not receiver.owns:
                if isinstance(receiver.failure, AccessRefused | ConfigurationError | Unsupported):
                    raise receiver.failure
                if time.monotonic() > deadline:
                    raise BrokerUnavailable(
                        "The group does not settle: members come and go, or one hangs.",
                        next="See who is in it, and subscribe again.",
                        group=receiver.group,
                    ) from receiver.failure
                owner = await self._admin(Administration.owner, receiver.group)
                if owner is not None and owner != await receiver.member_id():
                    raise GroupTaken(
                        "The group is exclusive and has its member.",
                        next="Wait until it has left, or choose another group.",
                        group=receiver.group,
                    )
                await asyncio.sleep(0.05)
        except BaseException:
            await receiver.close()
            raise

    async def create(self, channel: Channel) -> bool:
        return await self._admin(Administration.create, channel)

    async def describe(self, channel: str) -> Channel:
        return await self._admin(Administration.describe, channel)

    async def alter(self, channel: Channel) -> None:
        await self._admin(Administration.alter, channel)

    async def delete(self, channel: str) -> None:
        await self._admin(Administration.delete, channel)

    async def channels(self) -> Sequence[str]:
        return await self._admin(Administration.channels)

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        return await self._admin(Administration.lag, channel, group)

    def log(self) -> KafkaLogReader:
        return KafkaLogReader(self.url)

    async def transact(
        self,
        messages: Sequence[Message],
        receiver: Receiver | None = None,
        done: Sequence[Message] = (),
        mark: tuple[str, int] | None = None,
    ) -> Sequence[Position | None]:
        if self._sender is None:
            raise _unconnected()
        if receiver is not None and not isinstance(receiver, KafkaReceiver):
            raise ConfigurationError(
                "The receiver is another broker's.", next="A transaction is within one Kafka cluster."
            )
        await self._sender.meet(messages)
        if self._transactions is None:
            raise _unconnected()
        return await self._transactions.transact(messages, receiver, done, mark)

    async def marked(self, name: str) -> int | None:
        if self._transactions is None:
            raise _unconnected()
        return await self._transactions.marked(name)

    async def _admin(self, call: Callable[..., R], *arguments: Any) -> R:
        if self._administration is None:
            raise _unconnected()
        return await asyncio.to_thread(call, self._administration, *arguments)


def _ownership(administration: Administration, channels: Sequence[str]) -> Ownership:
    administration.ensure_internal()
    return Ownership(administration, channels)


def _forgetting(administration: Administration, group: str) -> Callable[[], None]:
    return partial(administration.forget_empty, group)


def _unconnected() -> BrokerUnavailable:
    return BrokerUnavailable("The connection to Kafka is not open.", next="Call connect() first.")
