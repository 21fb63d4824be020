"""Which channels and groups there are: events in a stream of their own, read by everybody.

RabbitMQ tells nobody which exchanges exist, nor with what settings they were made, unless the management
plugin runs. So each change is an event in the stream ``dragoman/catalog``; its order decides who was first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from dragoman.adapters.rabbitmq import names
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.locks import holding
from dragoman.adapters.rabbitmq.streams import UNBORN, look
from dragoman.core.broker import Sharing
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound

log = logging.getLogger("dragoman.rabbitmq")

HASTE = 0.5
"""Seconds after which it is looked for with more patience, and without others who make it."""
FRESH = 1.0
"""For so many seconds publishers rely on what they know of a channel. A deleted one is noticed at once."""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    starts: Sequence[int]
    sharing: Sharing
    durable: bool
    life: str
    """Of a temporary group: which of its lives this is."""

    def start(self, partition: int) -> int:
        """A partition that was added later is read from its beginning."""
        return self.starts[partition] if partition < len(self.starts) else 0


@dataclass(frozen=True, slots=True)
class Entry:
    channel: Channel
    id: str
    """Of this channel, and not of another one of its name before or after it."""
    groups: Mapping[str, GroupEntry] = field(default_factory=dict)
    """The durable ones."""


class Catalog:
    """What one connection knows. ``refresh`` makes sure that it is not behind."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._entries: dict[str, Entry] = {}
        self._seen = 0
        self._refreshed = 0.0
        self._stale = True
        self._refreshing = asyncio.Lock()

    async def open(self) -> None:
        """Make the stream if it is not there.

        One at a time: the server breaks the connections of those who make a stream at once, or look into one
        that is being made.
        """
        if await self._is_there(HASTE):
            return
        async with holding(self._link, names.door(names.CATALOG)):
            if not await self._is_there(UNBORN):
                async with self._link.borrowed(confirms=True) as pipe:
                    await pipe.bear(names.CATALOG, {"x-queue-type": "stream"})

    async def _is_there(self, patience: float) -> bool:
        try:
            await look(self._link, names.CATALOG, "last", patience=patience)
        except (ChannelNotFound, BrokerUnavailable):
            return False
        return True

    async def refresh(self) -> None:
        """Read on from the last event seen, which is read again: so there is always one to come."""
        async with self._refreshing:
            for record in await look(self._link, names.CATALOG, self._seen):
                if record.offset > self._seen:
                    self._read(record.body)
                self._seen = max(self._seen, record.offset)
            self._refreshed = time.monotonic()
            self._stale = False

    def _read(self, body: bytes) -> None:
        """A record that is not an event of ours changes nothing."""
        try:
            if body:
                self._fold(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("An event in %s cannot be read: %r", names.CATALOG, error)

    def _fold(self, event: Mapping[str, Any]) -> None:
        name, entry = event["channel"], self._entries.get(event["channel"])
        match event["event"]:
            case "delete":
                self._entries.pop(name, None)
            case "create" if entry is None:
                self._entries[name] = Entry(_channel(event), event["id"])
            case "alter" if entry is not None:
                self._entries[name] = replace(entry, channel=_channel(event))
            case "group" if entry is not None:
                found = GroupEntry(event["starts"], Sharing(event["sharing"]), True, "")
                self._entries[name] = replace(entry, groups={**entry.groups, event["group"]: found})

    async def entry(self, channel: str, *, fresh: bool = True) -> Entry:
        """Raises ``ChannelNotFound``. Without ``fresh``, what was known a moment ago will do."""
        old = self._stale or time.monotonic() - self._refreshed > FRESH
        if fresh or old or channel not in self._entries:
            await self.refresh()
        found = self._entries.get(channel)
        if found is None:
            raise ChannelNotFound(
                f"There is no channel {channel!r}.", next="Create it first.", channel=channel
            )
        return found

    def known(self, channel: str) -> Entry | None:
        return self._entries.get(channel)

    def doubt(self) -> None:
        """Something was not as expected: the next question asks again."""
        self._stale = True

    async def channels(self) -> Sequence[str]:
        await self.refresh()
        return sorted(self._entries)

    async def record(self, event: str, channel: str, **more: Any) -> None:
        body = json.dumps({"event": event, "channel": channel, **more}).encode()
        async with self._link.borrowed(confirms=True) as pipe:
            await pipe.save(names.CATALOG, body)
        await self.refresh()

    async def record_channel(self, event: str, channel: Channel) -> None:
        await self.record(
            event,
            channel.name,
            id=uuid4().hex,
            partitions=channel.partitions,
            retention=channel.retention,
            settings=dict(channel.settings),
        )

    async def record_group(self, channel: str, group: str, entry: GroupEntry) -> None:
        await self.record(
            "group",
            channel,
            group=group,
            starts=list(entry.starts),
            sharing=entry.sharing,
        )


def _channel(event: Mapping[str, Any]) -> Channel:
    return Channel(event["channel"], event["partitions"], event["retention"], event["settings"])
