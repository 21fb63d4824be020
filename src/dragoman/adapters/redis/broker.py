"""The broker on Redis Streams."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dragoman.adapters.redis.channels import Channels, not_found
from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.log import RedisLogReader
from dragoman.adapters.redis.options import options_of
from dragoman.adapters.redis.publisher import Publisher
from dragoman.adapters.redis.records import RedisRecords
from dragoman.adapters.redis.scripts import BOUNDS, Script
from dragoman.adapters.redis.source import RedisSource
from dragoman.adapters.redis.tending import Tending
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
from dragoman.core.leasing import Chores, LeasedReceiver, Members, committed_in
from dragoman.core.loading import redacted
from dragoman.core.message import Message, Position
from dragoman.core.options import refuse_options

_BOUNDS = Script(BOUNDS)


class RedisBroker:
    """``redis://user:password@host:port/db``, with TLS ``rediss://``. Options: see ``Options``.

    A partition is a stream; ids are ``0-1``, ``0-2``, ... so that an offset is the id less one; entries
    that other programs add with other ids get the next of these. An entry has
    the fields ``t`` (milliseconds), ``v`` (the payload), ``k`` (the key) and ``h`` (the headers), the latter
    three where there are any. Redis' own groups hand entries to whoever asks, which breaks the order of a
    key, and cannot tell a slow consumer from a dead one; so the members lease whole partitions instead, as
    ``dragoman.core.leasing`` says. How messages are ordered is said in ``LeasedReceiver``.

    Durable as far as the server is: ``appendonly yes`` is required, and ``appendfsync always`` survives a
    power failure, too. ``publish`` adds all messages of a channel that fit one call at once or not at all.
    Retention never removes what a group has not done with.
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

    def __init__(self, url: str = "redis://localhost") -> None:
        self.url = url
        self._options = options_of(url)
        if self._options.durability == "memory":
            self.capabilities = replace(self.capabilities, durable=False)
        self._keys = Keys(self._options.prefix)
        self._server = Server(self._options)
        self._channels = Channels(self._server, self._keys)
        self._publisher = Publisher(self._server, self._keys, self._channels)
        self._tending = Tending(self._server, self._keys, self._channels)
        self._members = Members(self._options.lease, self._options.handover, self.log)
        self._chores = Chores()

    def __repr__(self) -> str:
        return f"RedisBroker({redacted(self.url)!r})"

    async def connect(self) -> None:
        await self._server.connect()

    async def close(self) -> None:
        await self._members.leave()
        await self._chores.stop()
        await self._publisher.close()
        await self._server.close()

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if not messages:
            return []
        if delay > 0:
            due = time.time() + delay
            await self._publisher.postpone(messages, due)
            for name in {message.channel for message in messages}:
                self._chores.do_at(due, partial(self._tending.bring_in, name))
            return [None] * len(messages)
        positions = await self._publisher.publish(messages)
        for name in {message.channel for message in messages}:
            known = await self._channels.known(name)
            if known.channel.retention is not None and time.monotonic() >= known.trim_at:
                known.trim_at = time.monotonic() + 1.0
                self._chores.do(self._tending.trim(known))
        return positions

    async def subscribe(self, subscription: Subscription) -> LeasedReceiver:
        check_subscription(subscription, self.capabilities, "redis")
        refuse_options(subscription)
        for channel in subscription.channels:
            await self._channels.known(channel)
        lasting = 0.0 if subscription.durable else 3 * self._options.lease

        def records(channel: str) -> RedisRecords:
            return RedisRecords(self._server, self._keys, channel, subscription.group, lasting)

        source = RedisSource(
            self._server, self._keys, self._channels, subscription.channels, self._tending.tend
        )
        return await self._members.join(subscription, source, records)

    async def create(self, channel: Channel) -> bool:
        return await self._channels.create(channel)

    async def describe(self, channel: str) -> Channel:
        return await self._channels.describe(channel)

    async def alter(self, channel: Channel) -> None:
        await self._channels.alter(channel)
        known = await self._channels.known(channel.name)
        await self._tending.trim(known)

    async def delete(self, channel: str) -> None:
        await self._channels.delete(channel)

    async def channels(self) -> Sequence[str]:
        return await self._channels.names()

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        partitions = (await self._channels.describe(channel)).partitions
        numbers = range(partitions)
        names = sorted(
            name.decode() for name in await self._server.do("SMEMBERS", self._keys.groups(channel))
        )
        names = [name for name in names if group is None or name == group]
        bounds = await self._server.run(
            _BOUNDS, [self._keys.stream(channel, number) for number in numbers], []
        )
        if not all(bounds):
            raise not_found(channel)
        records = await self._server.many(
            [("HMGET", self._keys.group(channel, name), *map(str, numbers)) for name in names]
        )
        found = []
        for name, rows in zip(names, records, strict=True):
            for number, (start, end), data in zip(numbers, bounds, rows, strict=True):
                if data is not None:
                    found.append(Lag(name, channel, number, max(committed_in(data), start), end))
        return found

    def log(self) -> RedisLogReader:
        return RedisLogReader(self._options)
