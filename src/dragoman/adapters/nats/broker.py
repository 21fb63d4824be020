"""The broker on NATS JetStream."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import uuid4

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
from dragoman.core.leasing import LeasedReceiver, Membership, committed_in, starts_in
from dragoman.core.loading import redacted
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options

log = logging.getLogger("dragoman.nats")


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
        self._receivers: list[LeasedReceiver] = []
        self._background: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"NatsBroker({redacted(self.url)!r})"

    async def connect(self) -> None:
        await self._link.connect()

    async def close(self) -> None:
        for receiver in self._receivers:
            try:
                await receiver.close()
            except Exception as error:
                # NATS is away: the others notice that this member is gone.
                log.warning("A receiver could not leave its group: %s", error)
        self._receivers.clear()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._link.close()

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if not messages:
            return []
        if delay <= 0:
            return await self._publisher.publish(messages)
        due = time.time() + delay
        await self._delayed.postpone(messages, due)
        for name in {message.channel for message in messages}:
            self._later(self._bring_in_at(name, due))
        return [None] * len(messages)

    async def _bring_in_at(self, name: str, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.time()))
        await self._delayed.bring_in(name)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for it; members of groups do the same work when it is due."""
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("Work in the background failed: %s", error)

    async def subscribe(self, subscription: Subscription) -> LeasedReceiver:
        check_subscription(subscription, self.capabilities, "nats")
        refuse_options(subscription)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", subscription.member)[:40] or "member"
        name = f"{name}-{os.getpid()}-{uuid4().hex[:12]}"
        for channel in subscription.channels:
            await self._channels.known(channel)
        memberships = [self._membership(name, subscription, channel) for channel in subscription.channels]
        source = NatsSource(self._link, self._channels, subscription.channels, self._delayed.bring_in)
        receiver = LeasedReceiver(source, memberships, subscription.group)
        try:
            for membership in memberships:
                await membership.join(await source.partitions(membership.channel))
        except BaseException:
            await receiver.close()
            raise
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        return receiver

    def _membership(self, name: str, subscription: Subscription, channel: str) -> Membership:
        records = NatsRecords(self._link, self._publisher, channel, subscription.group, subscription.durable)

        async def starts(channel: str) -> list[int]:
            return await asyncio.to_thread(self._starts, channel, subscription)

        options = self._options
        return Membership(channel, name, subscription, records, starts, options.lease, options.handover)

    def _starts(self, channel: str, subscription: Subscription) -> list[int]:
        reader = self.log()
        try:
            return starts_in(reader, channel, subscription.start)
        finally:
            reader.close()

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
