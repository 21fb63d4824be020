"""A group's records on one channel: a hash, each record beside its revision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.scripts import SAVE, Script
from dragoman.core.errors import AccessRefused
from dragoman.core.leasing import Change, Stored

_SAVE = Script(SAVE)


class RedisRecords:
    """Implements ``dragoman.core.leasing.Records``. ``lasting`` are the seconds that a group which is not
    durable outlives its last sign of life; 0 for one that is."""

    def __init__(self, server: Server, keys: Keys, channel: str, group: str, lasting: float) -> None:
        self._server = server
        self._key = keys.group(channel, group)
        self._keys = [self._key, keys.channel(channel), keys.groups(channel)]
        self._groups = keys.groups(channel)
        self._group = group
        self._lasting = int(lasting * 1000)

    async def load(self, names: Sequence[str]) -> list[Stored | None]:
        if not names:
            return []
        wanted = [field for name in names for field in (name, f"{name}#")]
        found = await self._server.do("HMGET", self._key, *wanted)
        return [
            None if data is None else Stored(data, int(revision))
            for data, revision in zip(found[::2], found[1::2], strict=True)
        ]

    async def save(self, changes: Sequence[Change]) -> list[int | None]:
        arguments: list[Any] = [self._lasting]
        for name, data, revision in changes:
            arguments += (name, data, revision)
        found = await self._server.run(_SAVE, self._keys, [*arguments, self._group])
        return [revision or None for revision in found[: len(changes)]]

    async def remove(self, names: Sequence[str]) -> None:
        await self._server.many([("DEL", self._key), ("SREM", self._groups, self._group)])

    async def seat(self) -> str:
        return await self._server.seat()

    async def gone(self, seats: Collection[str]) -> set[str]:
        if not seats:
            return set()
        try:
            found = await self._server.do("CLIENT LIST", "ID", *seats)
        except AccessRefused:
            return set()
        lines = found if isinstance(found, list) else []
        return set(seats) - {str(line["id"]) for line in lines}
