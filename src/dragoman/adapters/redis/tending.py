"""What members do for a channel on the side: bring in delayed messages, and trim what is done with."""

from __future__ import annotations

import time

from dragoman.adapters.redis.channels import Channels, Known
from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.scripts import BRING_IN, DUE, STAMPS, TRIM, Script
from dragoman.adapters.redis.wire import fields_of, stamps_in, unpack_delayed

_BRING_IN, _DUE, _STAMPS, _TRIM = Script(BRING_IN), Script(DUE), Script(STAMPS), Script(TRIM)
AT_ONCE = 100
LOOK_AGAIN = 1.0
LONGEST = 60.0
STRIDE = 1000
MOST_STRIDES = 100
"""A trim looks at so many strides of messages, and leaves the rest to the next."""


class Tending:
    """Safe to be done by any number of processes at once."""

    def __init__(self, server: Server, keys: Keys, channels: Channels) -> None:
        self._server = server
        self._keys = keys
        self._channels = channels

    async def tend(self, name: str) -> float | None:
        """When the next delayed message is due."""
        known = await self._channels.known(name)
        if known.channel.retention is not None and time.monotonic() >= known.trim_at:
            await self.trim(known)
        return await self.bring_in(name)

    async def bring_in(self, name: str) -> float | None:
        key = self._keys.delayed(name)
        while True:
            first, packed = await self._server.run(_DUE, [key], [time.time(), AT_ONCE])
            if not packed:
                return float(first) if first else None
            known = await self._channels.known(name)
            partitions = known.channel.partitions
            now = time.time_ns() // 1_000_000
            arguments: list[object] = []
            for each in packed:
                message = unpack_delayed(each, name)
                fields = fields_of(message, now)
                number = known.partitioner.choose(message, partitions)
                arguments += (each, number + 1, len(fields), *fields)
            keys = [key, *(self._keys.stream(name, number) for number in range(partitions))]
            if await self._server.run_safely(_BRING_IN, keys, arguments) < 0:
                # A partition that was there is gone: the channel was deleted, and may be there again.
                self._channels.forget(name)
                return time.time() + LOOK_AGAIN

    async def trim(self, known: Known) -> None:
        """Remove what is older than the retention, unless a group has not done with it."""
        channel = known.channel
        if channel.retention is None:
            return
        known.trim_at = time.monotonic() + min(LONGEST, max(1.0, channel.retention / 10))
        oldest = int((time.time() - channel.retention) * 1000)
        for partition in range(channel.partitions):
            stream = self._keys.stream(channel.name, partition)
            keep = await self._first_since(stream, oldest)
            if keep is not None:
                await self._server.run(
                    _TRIM,
                    [stream, self._keys.groups(channel.name)],
                    [keep, partition, self._keys.group(channel.name, "")],
                )

    async def _first_since(self, stream: str, oldest: int) -> int | None:
        """The offset of the first message that must stay; nothing if it is the first of all."""
        keep, at = None, 0
        for _ in range(MOST_STRIDES):
            found = stamps_in(await self._server.run(_STAMPS, [stream], [f"0-{at + 1}", STRIDE]))
            for offset, stamp in found:
                if stamp >= oldest:
                    return keep
                keep = offset + 1
            if not found:
                break
            at = found[-1][0] + 1
        return keep
