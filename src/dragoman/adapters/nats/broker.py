"""The broker on NATS JetStream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from dragoman.adapters.nats.channels import Channels
from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.delayed import Delayed
from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.log import NatsLogReader
from dragoman.adapters.nats.names import name_of
from dragoman.adapters.nats.options import options_of
from dragoman.adapters.nats.publisher import Publisher
from dragoman.adapters.nats.records import NatsRecords, load
from dragoman.adapters.nats.source import NatsSource
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
from dragoman.core.leasing import ROSTER, Chores, LeasedReceiver, Members, Roster, Stored, committed_in
from dragoman.core.loading import redacted
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options
from dragoman.core.partitioning import check_durability


class NatsBroker:
    """``nats://user:password@host:port``, several hosts separated by commas. Options: see ``Options``.

    A partition is a stream on files; its sequence numbers less one are the offsets. The payload is the
    message, as it is; key and headers travel as NATS headers in base64. Consumers of JetStream hand messages
    to whoever asks, which breaks the order of a key; so the members of a group lease whole partitions, as
    ``dragoman.core.leasing`` says, and an acknowledgement is a record that JetStream has confirmed.

    ``publish`` returns when JetStream has confirmed each message. Nothing is kept for later while there is
    no connection. A message with the header ``message-id`` that comes again within two minutes is not stored
    twice. Retention is JetStream's: it removes messages whether or not all groups have seen them.
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
        deduplication=True,
        start_by_time=True,
        lag=True,
        sharing=frozenset(Sharing),
        temporary_groups=True,
        start_by_offset=True,
    )

    def __init__(self, url: str = "nats://localhost") -> None:
        self.url = url
        self._options = options_of(url)
        self._link = Link(self._options)
        self._channels = Channels(self._link)
        self._publisher = Publisher(self._link, self._channels)
        self._delayed = Delayed(self._link, self._channels, self._publisher)
        self._members = Members(self._options.lease, self._options.handover, self.log)
        self._chores = Chores()

    def __repr__(self) -> str:
        return f"NatsBroker({redacted(self.url)!r})"

    async def connect(self) -> None:
        await self._link.connect()

    async def close(self) -> None:
        await self._members.leave()
        await self._chores.stop()
        await self._link.close()

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if not messages:
            return []
        if delay <= 0:
            return await self._publisher.publish(messages)
        due = time.time() + delay
        await self._delayed.postpone(messages, due)
        for name in {message.channel for message in messages}:
            self._chores.do_at(due, partial(self._delayed.bring_in, name))
        return [None] * len(messages)

    async def subscribe(self, subscription: Subscription) -> LeasedReceiver:
        check_subscription(subscription, self.capabilities, "nats")
        refuse_options(subscription)
        for channel in subscription.channels:
            await self._channels.known(channel)

        def records(channel: str) -> NatsRecords:
            return NatsRecords(self._link, self._publisher, channel, subscription.group, subscription.durable)

        source = NatsSource(self._link, self._channels, subscription.channels, self._delayed.bring_in)
        await self._refuse_other_kind(subscription)
        receiver = await self._members.join(subscription, source, records)
        if not subscription.durable:
            # Of two that came at once the durable one stays: what it is to keep counts for more.
            try:
                await self._refuse_other_kind(subscription)
            except BaseException:
                await receiver.close()
                raise
        return receiver

    async def _refuse_other_kind(self, subscription: Subscription) -> None:
        """Records of groups that last and of those that pass are in two streams, where no one sees both."""
        lasting = not subscription.durable
        for channel in subscription.channels:
            records = NatsRecords(self._link, self._publisher, channel, subscription.group, lasting)
            [stored] = await records.load([ROSTER])
            if stored is not None and (lasting or await _has_members(records, stored)):
                check_durability(subscription, lasting)

    async def create(self, channel: Channel) -> bool:
        return await self._channels.create(channel)

    async def describe(self, channel: str) -> Channel:
        return await self._channels.describe(channel)

    async def alter(self, channel: Channel) -> None:
        await self._channels.alter(channel)

    async def delete(self, channel: str) -> None:
        await self._channels.delete(channel)

    async def channels(self) -> Sequence[str]:
        return await self._channels.names()

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        numbers = range((await self._channels.describe(channel)).partitions)
        states = [(await self._channels.info(channel, number))["state"] for number in numbers]
        found = []
        for lasting in (True, False):
            for name in await self._groups(channel, lasting):
                if group is not None and group != name:
                    continue
                for number, state in zip(numbers, states, strict=True):
                    subject = self._link.names.record(channel, name, str(number), lasting)
                    with ours(channel=channel):
                        stored = await load(self._link, self._link.names.groups(lasting), subject)
                    if stored is not None:
                        end = state["last_seq"]
                        start = state["first_seq"] - 1 if state["messages"] else end
                        committed = max(committed_in(stored.data), start)
                        found.append(Lag(name, channel, number, committed, end))
        return found

    async def _groups(self, channel: str, lasting: bool) -> list[str]:
        """The names of a channel's groups: the third part of their records' subjects."""
        names = self._link.names
        with ours(channel=channel):
            try:
                await self._link.until_whole(names.groups(lasting))
                info = await self._link.request(
                    f"STREAM.INFO.{names.groups(lasting)}", subjects_filter=names.records(channel, lasting)
                )
            except Refused as refused:
                if refused.number == Refused.STREAM_NOT_FOUND:
                    return []
                raise
        subjects = info["state"].get("subjects") or {}
        return sorted({name_of(subject.split(".")[2]) for subject in subjects})

    def log(self) -> NatsLogReader:
        return NatsLogReader(self._options)


async def _has_members(records: NatsRecords, stored: Stored) -> bool:
    """Members that are still connected: what others left behind passes by itself."""
    seats = {member.seat for member in Roster.decode(stored.data).members.values()}
    return bool(seats - await records.gone(seats))
