"""Doubles for ``core/leasing``: records with compare-and-set and partitions in memory, behind a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from dragoman.core.leasing import Change, Place, Stored
from dragoman.core.message import Message
from dragoman.testing.simulation.loop import SimulatedLoop
from dragoman.testing.simulation.network import Link

Listener = Callable[[str, Change], None]
"""Told which member has changed a record, once the change is made."""


class Shelf:
    """One group's records, and the connections that are gone for certain."""

    def __init__(self, listen: Listener) -> None:
        self.records: dict[str, Stored] = {}
        self.gone: set[str] = set()
        self._listen = listen

    def save(self, member: str, changes: Sequence[Change]) -> list[int | None]:
        revisions: list[int | None] = []
        for change in changes:
            found = self.records.get(change.name)
            if (0 if found is None else found.revision) != change.revision:
                revisions.append(None)
                continue
            self.records[change.name] = Stored(change.data, change.revision + 1)
            revisions.append(change.revision + 1)
            self._listen(member, change)
        return revisions


class SimulatedRecords:
    """Implements ``Records`` for one member. ``seats`` counts its connections."""

    def __init__(self, shelf: Shelf, link: Link, member: str) -> None:
        self.seats = 1
        self._shelf = shelf
        self._link = link
        self._member = member

    @property
    def own_seat(self) -> str:
        return f"{self._member}/{self.seats}"

    async def load(self, names: Sequence[str]) -> list[Stored | None]:
        return await self._link.call("load", lambda: [self._shelf.records.get(name) for name in names])

    async def save(self, changes: Sequence[Change]) -> list[int | None]:
        return await self._link.call("save", lambda: self._shelf.save(self._member, changes))

    async def remove(self, names: Sequence[str]) -> None:
        def effect() -> None:
            for name in names:
                self._shelf.records.pop(name, None)

        await self._link.call("remove", effect)

    async def seat(self) -> str:
        return await self._link.call("seat", lambda: self.own_seat)

    async def gone(self, seats: Collection[str]) -> set[str]:
        return await self._link.call("gone", lambda: set(seats) & self._shelf.gone)


class Logs:
    """The partitions of one channel."""

    def __init__(self, channel: str, partitions: int) -> None:
        self.channel = channel
        self.lines: list[list[Message]] = [[] for _ in range(partitions)]
        self._waiters: list[asyncio.Future[None]] = []

    def append(self, partition: int) -> None:
        line = self.lines[partition]
        line.append(Message(self.channel, b"", partition=partition, offset=len(line), timestamp=0))
        self._wake()

    def grow(self) -> None:
        self.lines.append([])
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def appended(self, loop: SimulatedLoop, timeout: float) -> None:
        waiter = loop.create_future()
        self._waiters.append(waiter)
        await asyncio.wait((waiter,), timeout=timeout)


class SimulatedSource:
    """Implements ``Source`` for one member."""

    def __init__(self, loop: SimulatedLoop, logs: Logs, link: Link) -> None:
        self._loop = loop
        self._logs = logs
        self._link = link

    async def partitions(self, channel: str) -> int:
        return await self._link.call("partitions", lambda: len(self._logs.lines))

    async def read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> Sequence[tuple[Place, list[Message]]]:
        def effect() -> Sequence[tuple[Place, list[Message]]]:
            left, found = limit, []
            for place, cursor in cursors:
                some = self._logs.lines[place[1]][cursor : cursor + left]
                found.append((place, some))
                left -= len(some)
            return found

        return await self._link.call("read", effect)

    async def pick(self, place: Place, offsets: Sequence[int]) -> list[Message]:
        line = self._logs.lines[place[1]]
        return await self._link.call("pick", lambda: [line[offset] for offset in offsets])

    async def wait(self, cursors: Mapping[Place, int], timeout: float) -> None:
        lines = self._logs.lines
        if any(len(lines[place[1]]) > cursor for place, cursor in cursors.items()):
            await asyncio.sleep(0)
        else:
            await self._logs.appended(self._loop, timeout)

    async def tend(self) -> float | None:
        return None

    async def close(self) -> None: ...
