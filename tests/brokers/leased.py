"""Records and a log in memory, and time that stands still: leases without waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import pytest

from dragoman.core.broker import Sharing, Subscription
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.leasing import Change, LeasedReceiver, Membership, Stored
from dragoman.core.message import Message

Place = tuple[str, int]


class Time:
    """Stands in for the module ``time`` where leases are counted."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    for module in ("membership", "receiver", "watch"):
        monkeypatch.setattr(f"dragoman.core.leasing.{module}.time", clock)
    return clock


class Shelf:
    """One group's records, and which seats are taken."""

    def __init__(self) -> None:
        self.records: dict[str, Stored] = {}
        self.left: set[str] = set()
        self.failing: str | None = None
        """``before`` or ``after`` a change: the connection breaks there."""
        self.only: str | None = None
        """Just for changes of this record."""


class Seated:
    """Implements ``Records`` for one member."""

    def __init__(self, shelf: Shelf, seat: str) -> None:
        self._shelf = shelf
        self.taken = seat

    async def load(self, names: Sequence[str]) -> list[Stored | None]:
        return [self._shelf.records.get(name) for name in names]

    async def save(self, changes: Sequence[Change]) -> list[int | None]:
        shelf = self._shelf
        concerned = shelf.only is None or any(change.name == shelf.only for change in changes)
        if shelf.failing == "before" and concerned:
            raise BrokerUnavailable("cut")
        revisions: list[int | None] = []
        for name, data, revision in changes:
            found = shelf.records.get(name)
            if (found.revision if found else 0) != revision:
                revisions.append(None)
                continue
            shelf.records[name] = Stored(data, revision + 1)
            revisions.append(revision + 1)
        if shelf.failing == "after" and concerned:
            raise BrokerUnavailable("cut")
        return revisions

    async def remove(self, names: Sequence[str]) -> None:
        self._shelf.records.clear()

    async def seat(self) -> str:
        return self.taken

    async def gone(self, seats: Collection[str]) -> set[str]:
        return set(seats) & self._shelf.left


class Lines:
    """A log whose partitions are lists. Implements ``Source``."""

    def __init__(self, partitions: int) -> None:
        self.lines: list[list[Message]] = [[] for _ in range(partitions)]

    def add(self, partition: int, *payloads: bytes) -> None:
        line = self.lines[partition]
        for payload in payloads:
            line.append(Message("c", payload, partition=partition, offset=len(line)))

    async def partitions(self, channel: str) -> int:
        return len(self.lines)

    async def read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> Sequence[tuple[Place, list[Message]]]:
        return [(place, self._from(place, cursor)[:limit]) for place, cursor in cursors]

    def _from(self, place: Place, offset: int) -> list[Message]:
        return [message for message in self.lines[place[1]] if (message.offset or 0) >= offset]

    async def pick(self, place: Place, offsets: Sequence[int]) -> list[Message]:
        return [message for message in self.lines[place[1]] if message.offset in offsets]

    async def wait(self, cursors: Mapping[Place, int], timeout: float) -> None:
        await asyncio.sleep(0)

    async def tend(self) -> float | None:
        return None

    async def close(self) -> None: ...


async def member(
    name: str, shelf: Shelf, lines: Lines, sharing: Sharing = Sharing.SHARED, durable: bool = True
) -> tuple[LeasedReceiver, Seated]:
    """A receiver that has joined, with a lease of 10 seconds and 5 to hand over."""
    records = Seated(shelf, f"seat of {name}")

    async def starts(channel: str) -> list[int]:
        return [0] * len(lines.lines)

    subscription = Subscription(("c",), "g", sharing=sharing, durable=durable)
    membership = Membership("c", name, subscription, records, starts, 10.0, 5.0)
    await membership.join(len(lines.lines))
    return LeasedReceiver(lines, [membership], "g"), records
