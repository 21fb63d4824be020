"""How a member reads: a reader per partition, and one bell for all."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dragoman.adapters.nats.channels import Channels
from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import ours
from dragoman.adapters.nats.reader import PartitionReader
from dragoman.adapters.nats.wire import message_of, parse_headers
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.leasing import Place
from dragoman.core.message import Message


class NatsSource:
    """Implements ``dragoman.core.leasing.Source``."""

    def __init__(
        self,
        link: Link,
        channels: Channels,
        names: Sequence[str],
        tend: Callable[[str], Awaitable[float | None]],
    ) -> None:
        self._link = link
        self._channels = channels
        self._names = names
        self._tend = tend
        self._readers: dict[Place, PartitionReader] = {}
        self._bell = asyncio.Event()
        link.on_broken(self._stop_all)

    def _stop_all(self) -> None:
        for reader in self._readers.values():
            reader.stop()
        self._bell.set()

    async def partitions(self, channel: str) -> int:
        return (await self._channels.known(channel)).channel.partitions

    async def read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> Sequence[tuple[Place, list[Message]]]:
        if not self._link.connected:
            raise BrokerUnavailable("The connection to NATS is lost.", next="It is being made anew.")
        self._bell.clear()
        found = []
        for place, cursor in cursors:
            if place not in self._readers:
                self._readers[place] = PartitionReader(self._link, *place, self._bell.set)
            messages = await self._readers[place].take(cursor, limit)
            if messages:
                found.append((place, messages))
                limit -= len(messages)
                if limit <= 0:
                    break
        await self._drop_others({place for place, _ in cursors})
        return found

    async def _drop_others(self, wanted: set[Place]) -> None:
        for place in [place for place in self._readers if place not in wanted]:
            await self._readers.pop(place).close()

    async def pick(self, place: Place, offsets: Sequence[int]) -> list[Message]:
        found = await asyncio.gather(*(message_at(self._link, place, offset) for offset in offsets))
        return [message for message in found if message is not None]

    async def wait(self, cursors: Mapping[Place, int], timeout: float) -> None:
        if any(reader.ready for place, reader in self._readers.items() if place in cursors):
            # Waiting in turn, or to be started anew: both are done by the next read.
            await asyncio.sleep(0 if self._link.connected else min(timeout, 0.05))
            return
        try:
            async with asyncio.timeout(timeout):
                await self._bell.wait()
        except TimeoutError:
            return

    async def tend(self) -> float | None:
        moments = [await self._tend(name) for name in self._names]
        return min((moment for moment in moments if moment is not None), default=None)

    async def close(self) -> None:
        self._link.off_broken(self._stop_all)
        await self._drop_others(set())


async def message_at(link: Link, place: Place, offset: int) -> Message | None:
    """One message, unless it is gone."""
    with ours(channel=place[0], partition=place[1]):
        found = await link.message(link.names.stream(*place), seq=offset + 1)
    return None if found is None else stored_message(place, found)


def stored_message(place: Place, stored: Mapping[str, Any]) -> Message:
    """As JetStream tells it when asked for one."""
    headers = stored.get("hdrs")
    return message_of(
        *place,
        stored["seq"],
        milliseconds(stored["time"]),
        b64decode(stored.get("data", "")),
        None if headers is None else parse_headers(b64decode(headers)),
    )


def milliseconds(text: str) -> int:
    """From 2026-01-01T12:00:00.123456789Z; Python reads six places at most."""
    whole, _, rest = text.rstrip("Z").partition(".")
    moment = datetime.fromisoformat(f"{whole}+00:00")
    return int(moment.timestamp()) * 1000 + int(rest.ljust(3, "0")[:3] or 0)
