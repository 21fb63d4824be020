"""Channels: a stream per partition; the first one's description says what belongs to it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import Refused, ours
from dragoman.core.channel import Channel
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.partitioning import Partitioner

REMEMBERED = 2.0
"""Seconds after which settings are asked for again."""
SECOND = 1_000_000_000
DUPLICATE_WINDOW = 120.0

SETTINGS = {"max_bytes": int, "max_msg_size": int}
"""What a channel may set beside partitions and retention: names of JetStream."""


def not_found(name: str) -> ChannelNotFound:
    return ChannelNotFound(f"There is no channel {name!r}.", next="Create it first.", channel=name)


class Known:
    """A channel as it was a moment ago."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.until = 0.0
        self.partitioner = Partitioner(channel.name)


class Channels:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._names = link.names
        self._known: dict[str, Known] = {}

    async def known(self, name: str) -> Known:
        """Raises ``ChannelNotFound``."""
        found = self._known.get(name)
        if found is None or found.until < time.monotonic():
            channel = await self.describe(name)
            found = self._known.setdefault(name, Known(channel))
            found.channel = channel
            found.until = time.monotonic() + REMEMBERED
        return found

    def forget(self, name: str) -> None:
        if name in self._known:
            self._known[name].until = 0.0

    async def info(self, name: str, partition: int) -> dict[str, Any]:
        with ours(channel=name):
            try:
                return await self._link.stream_info(self._names.stream(name, partition))
            except Refused as refused:
                if refused.number != Refused.STREAM_NOT_FOUND:
                    raise
        self._known.pop(name, None)
        raise not_found(name)

    async def describe(self, name: str) -> Channel:
        return channel_of(name, (await self.info(name, 0))["config"])

    async def create(self, channel: Channel) -> bool:
        settings = _checked(channel)
        try:
            await self.describe(channel.name)
            return False
        except ChannelNotFound:
            pass
        # The first partition is made last: from then on the channel is there. One creator of it wins.
        with ours(channel=channel.name):
            for partition in reversed(range(channel.partitions)):
                try:
                    await self._make(channel, partition, settings)
                except Refused as refused:
                    if refused.number != Refused.NAME_IN_USE:
                        raise
                    await self._link.stream_info(self._names.stream(channel.name, partition))
                    if partition == 0:
                        return False
        self.forget(channel.name)
        return True

    async def _make(self, channel: Channel, partition: int, settings: dict[str, Any]) -> None:
        await self._link.make_stream(**self._config(channel, partition, settings))

    def _config(self, channel: Channel, partition: int, settings: dict[str, Any]) -> dict[str, Any]:
        about = {
            "channel": channel.name,
            "partitions": channel.partitions,
            "retention": channel.retention,
            "settings": dict(channel.settings),
            "made": uuid4().hex,
        }
        age = 0 if channel.retention is None else int(channel.retention * SECOND)
        window = DUPLICATE_WINDOW if channel.retention is None else min(DUPLICATE_WINDOW, channel.retention)
        return {
            "name": self._names.stream(channel.name, partition),
            "subjects": [self._names.subject(channel.name, partition)],
            "description": json.dumps(about) if partition == 0 else channel.name,
            "retention": "limits",
            "discard": "new" if "max_bytes" in settings else "old",
            "storage": "file",
            "max_age": age,
            "duplicate_window": max(int(window * SECOND), SECOND // 10),
            "num_replicas": self._link.options.replicas,
            "allow_direct": True,
            **settings,
        }

    async def alter(self, channel: Channel) -> None:
        settings = _checked(channel)
        before = (await self.describe(channel.name)).partitions
        if before > channel.partitions:
            raise ConfigurationError(
                f"{before} partitions cannot become {channel.partitions}.",
                next="Partitions may grow, never shrink.",
                channel=channel.name,
            )
        with ours(channel=channel.name):
            for partition in reversed(range(channel.partitions)):
                if partition < before:
                    stream = self._names.stream(channel.name, partition)
                    await self._link.request(
                        f"STREAM.UPDATE.{stream}", **self._config(channel, partition, settings)
                    )
                else:
                    await self._make(channel, partition, settings)
        self.forget(channel.name)

    async def delete(self, name: str) -> None:
        partitions = (await self.describe(name)).partitions
        self._known.pop(name, None)
        with ours(channel=name):
            # The first partition goes last: as long as it is there the channel is, and can be deleted again.
            for partition in reversed(range(partitions)):
                await self._quietly(f"STREAM.DELETE.{self._names.stream(name, partition)}")
            for lasting in (True, False):
                await self._quietly(
                    f"STREAM.PURGE.{self._names.groups(lasting)}", filter=self._names.records(name, lasting)
                )
            await self._quietly(
                f"STREAM.PURGE.{self._names.delayed}", filter=self._names.delayed_subject(name)
            )

    async def _quietly(self, what: str, **body: Any) -> None:
        """Not there is as good as deleted."""
        try:
            await self._link.request(what, **body)
        except Refused as refused:
            if refused.number != Refused.STREAM_NOT_FOUND:
                raise

    async def names(self) -> list[str]:
        found: list[str] = []
        offset = 0
        with ours():
            while True:
                page = await self._link.request(
                    "STREAM.LIST", subject=self._names.every_channel, offset=offset
                )
                streams = page.get("streams") or []
                found += [_about(stream["config"])["channel"] for stream in streams]
                offset += len(streams)
                if not streams or offset >= page["total"]:
                    return sorted(found)


def _about(config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(config["description"])
    return found


def channel_of(name: str, config: Mapping[str, Any]) -> Channel:
    about = _about(config)
    return Channel(name, about["partitions"], about["retention"], about["settings"])


def _checked(channel: Channel) -> dict[str, Any]:
    """The settings as JetStream takes them."""
    unknown = sorted(channel.settings.keys() - SETTINGS.keys())
    if unknown:
        raise ConfigurationError(
            f"Unknown settings of a channel: {', '.join(unknown)}.",
            code="configuration.option",
            next=f"Known are {', '.join(SETTINGS)}.",
            channel=channel.name,
        )
    try:
        return {name: SETTINGS[name](value) for name, value in channel.settings.items()}
    except ValueError as error:
        raise ConfigurationError(
            f"A setting of the channel cannot be read: {error}.",
            code="configuration.option",
            next="Write sizes as whole numbers.",
            channel=channel.name,
        ) from None
