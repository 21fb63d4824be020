"""How a member reads: several streams in one call, and a connection of its own to wait on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dragoman.adapters.redis.channels import Channels
from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.errors import ours
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.scripts import READ, Script
from dragoman.adapters.redis.wire import messages_in
from dragoman.core.leasing import Place
from dragoman.core.message import Message

READ_SCRIPT = Script(READ)
MOST_BYTES = 4 << 20
"""After so many bytes a call gives no more messages."""
PICKS = 20


class RedisSource:
    """Implements ``dragoman.core.leasing.Source``."""

    def __init__(
        self,
        server: Server,
        keys: Keys,
        channels: Channels,
        names: Sequence[str],
        tend: Callable[[str], Awaitable[float | None]],
    ) -> None:
        self._server = server
        self._keys = keys
        self._channels = channels
        self._names = names
        self._tend = tend
        self._bell: Any = server.client(single_connection_client=True, socket_timeout=None)

    async def partitions(self, channel: str) -> int:
        return (await self._channels.known(channel)).channel.partitions

    async def read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> Sequence[tuple[Place, list[Message]]]:
        found: list[tuple[Place, list[Message]]] = []
        by_channel: dict[str, list[tuple[Place, int]]] = {}
        for place, cursor in cursors:
            by_channel.setdefault(place[0], []).append((place, cursor))
        for some in by_channel.values():
            if limit <= 0:
                break
            read = await self._read(some, limit)
            limit -= sum(len(messages) for _, messages in read)
            found += read
        return found

    async def _read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> list[tuple[Place, list[Message]]]:
        keys = [self._keys.stream(*place) for place, _ in cursors]
        arguments: list[object] = [limit, MOST_BYTES]
        for _, cursor in cursors:
            arguments += (f"0-{cursor + 1}", "+")
        blobs = await self._server.run(READ_SCRIPT, keys, arguments)
        return [
            (place, messages_in(blob, *place))
            for (place, _), blob in zip(cursors, blobs, strict=True)
            if blob
        ]

    async def pick(self, place: Place, offsets: Sequence[int]) -> list[Message]:
        found: list[Message] = []
        for start in range(0, len(offsets), PICKS):
            part = offsets[start : start + PICKS]
            # Without a bound on bytes: what is not told counts as gone.
            arguments: list[object] = [len(part), 2**52]
            for offset in part:
                arguments += (f"0-{offset + 1}", f"0-{offset + 1}")
            keys = [self._keys.stream(*place)] * len(part)
            for blob in await self._server.run(READ_SCRIPT, keys, arguments):
                found += messages_in(blob, *place)
        return found

    async def wait(self, cursors: Mapping[Place, int], timeout: float) -> None:
        if timeout <= 0:
            return
        if not cursors:
            await asyncio.sleep(timeout)
            return
        keys = [self._keys.stream(*place) for place in cursors]
        after = [f"0-{cursor}" for cursor in cursors.values()]
        with ours():
            # A connection that hangs must not hold us longer than one that works.
            async with asyncio.timeout(timeout + 5.0):
                await self._bell.execute_command(
                    "XREAD", "COUNT", 1, "BLOCK", max(1, int(timeout * 1000)), "STREAMS", *keys, *after
                )

    async def tend(self) -> float | None:
        moments = [await self._tend(name) for name in self._names]
        return min((moment for moment in moments if moment is not None), default=None)

    async def close(self) -> None:
        with ours():
            await self._bell.aclose()
