"""Channels: their settings, as they are kept and as they are remembered."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.scripts import ALTER, CREATE, DELETE, Script
from dragoman.core.channel import Channel
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.partitioning import Partitioner

REMEMBERED = 2.0
"""Seconds after which settings are asked for again."""

_CREATE, _ALTER, _DELETE = Script(CREATE), Script(ALTER), Script(DELETE)


def not_found(name: str) -> ChannelNotFound:
    return ChannelNotFound(f"There is no channel {name!r}.", next="Create it first.", channel=name)


class Known:
    """A channel as it was a moment ago."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.until = 0.0
        self.partitioner = Partitioner(channel.name)
        self.trim_at = 0.0


class Channels:
    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys
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

    async def describe(self, name: str) -> Channel:
        fields = await self._server.do("HGETALL", self._keys.channel(name))
        if not fields:
            self._known.pop(name, None)
            raise not_found(name)
        return channel_of(name, fields)

    async def create(self, channel: Channel) -> bool:
        self._refuse_settings(channel)
        made = await self._server.run_safely(_CREATE, [self._keys.channel(channel.name)], _settings(channel))
        await self._server.do("SADD", self._keys.channels, channel.name)
        self.forget(channel.name)
        return bool(made)

    async def alter(self, channel: Channel) -> None:
        self._refuse_settings(channel)
        found = await self._server.run_safely(_ALTER, [self._keys.channel(channel.name)], _settings(channel))
        self.forget(channel.name)
        if found < 0:
            raise not_found(channel.name)
        if found:
            raise ConfigurationError(
                f"{found} partitions cannot become {channel.partitions}.",
                next="Partitions may grow, never shrink.",
                channel=channel.name,
            )

    async def delete(self, name: str) -> None:
        there = await self._server.run_safely(_DELETE, [self._keys.channel(name)], [])
        await self._server.do("SREM", self._keys.channels, name)
        self._known.pop(name, None)
        if not there:
            raise not_found(name)

    async def names(self) -> list[str]:
        return sorted(name.decode() for name in await self._server.do("SMEMBERS", self._keys.channels))

    @staticmethod
    def _refuse_settings(channel: Channel) -> None:
        if channel.settings:
            raise ConfigurationError(
                f"Unknown settings of a channel: {', '.join(sorted(channel.settings))}.",
                code="configuration.option",
                next="Redis has none beside partitions and retention.",
                channel=channel.name,
            )


def _settings(channel: Channel) -> list[Any]:
    return [channel.partitions, "" if channel.retention is None else channel.retention, "{}"]


def channel_of(name: str, fields: Mapping[Any, Any] | list[Any]) -> Channel:
    """From the hash; the driver gives it as a mapping, or as a flat list."""
    if not isinstance(fields, Mapping):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    retention = fields[b"retention"]
    return Channel(
        name,
        int(fields[b"partitions"]),
        float(retention) if retention else None,
        json.loads(fields[b"settings"]),
    )
