"""The seats of a group at a channel: each is a session that the server keeps, and one member sits on it.

A server gives every session of a shared subscription its part of the messages, whether somebody is there or
not. So all seats have to be taken, always: the seats of members that left or died are taken by the others.
Who sits where stands in retained messages; a member's last will frees its seat.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.adapters.mqtt.channels import level
from dragoman.adapters.mqtt.control import Control
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.partitioning import check_company, check_durability

BEAT = 2.0
"""Seconds between two signs of life of a member."""
SILENCE = 8.0
"""After so many seconds without one a member is taken for dead, if its will has not told so before."""
TEMPORARY = 60
"""Seconds that a group which is not durable outlives a member that died."""


class Seat(NamedTuple):
    """``member`` is ``None`` if nobody sits there; ``before`` is who did."""

    member: str | None
    sharing: Sharing
    durable: bool
    before: str | None = None

    def written(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def read_seat(raw: bytes) -> Seat | None:
    try:
        found = json.loads(raw)
        return Seat(found["member"], Sharing(found["sharing"]), bool(found["durable"]), found["before"])
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Table:
    """Where a group's seats at one channel are written down."""

    prefix: str
    group: str
    channel: str

    @property
    def topic(self) -> str:
        return f"{self.prefix}/groups/{level(self.group)}/{level(self.channel)}"

    def seat(self, number: int) -> str:
        return f"{self.topic}/{number}"

    def client(self, number: int) -> str:
        """Of the session: the same for whoever sits there."""
        return f"{self.prefix}/{level(self.group)}/{level(self.channel)}/{number}"


class Seats:
    """What one member knows of the seats at one channel."""

    def __init__(self, control: Control, table: Table, subscription: Subscription, member: str) -> None:
        self.table = table
        self.known: dict[int, Seat] = {}
        self._control = control
        self._subscription = subscription
        self._member = member
        self._heard: dict[str, float] = {}

    def forget(self) -> None:
        """The server tells all anew; those who are alive have time to say so."""
        self.known.clear()
        self._heard.clear()

    def told(self, topic: str, payload: bytes) -> None:
        number = topic.rpartition("/")[2]
        if not number.isdigit():
            return
        if not payload:
            self.known.pop(int(number), None)
            return
        seat = read_seat(payload)
        if seat is None:
            return
        old = self.known.get(int(number))
        if seat.member is None and old is not None and old.member not in (None, seat.before):
            # The will of who was there before: the one who took the seat over sits on it.
            return
        self.known[int(number)] = seat
        if seat.member is not None:
            self.alive(seat.member)

    def alive(self, member: str) -> None:
        self._heard[member] = time.monotonic()

    def is_alive(self, member: str) -> bool:
        return time.monotonic() - self._heard.get(member, 0.0) < SILENCE

    def members(self) -> list[str]:
        """Those who are there, ourselves always."""
        sitting = {seat.member for seat in self.known.values() if seat.member is not None}
        return sorted({self._member, *(member for member in sitting if self.is_alive(member))})

    def free(self) -> list[int]:
        return sorted(
            number
            for number, seat in self.known.items()
            if seat.member is None or (seat.member != self._member and not self.is_alive(seat.member))
        )

    def ours(self) -> list[int]:
        """Seats that are for us: written down as ours, or free and for us to take."""
        members, mine = self.members(), [number for number in self.known if self.is_ours(number)]
        if self._subscription.sharing is not Sharing.SHARED:
            return mine + self.free()
        return mine + [number for number in self.free() if members[number % len(members)] == self._member]

    def choose(self) -> int | None:
        """Where a new member sits down; ``None``: it waits until the one who sits there goes."""
        sitting = [seat for number, seat in self.known.items() if number not in self.free()]
        check_company(self._subscription, [(seat.sharing, (self.table.channel,)) for seat in sitting])
        for seat in sitting:
            check_durability(self._subscription, seat.durable)
        if self._subscription.sharing is not Sharing.SHARED:
            return None if sitting else 0
        if free := self.free():
            return free[0]
        taken: dict[str | None, list[int]] = {}
        for number, seat in self.known.items():
            taken.setdefault(seat.member, []).append(number)
        crowded = [numbers for numbers in taken.values() if len(numbers) > 1]
        if crowded:
            return max(sorted(crowded, key=len)[-1])
        return max(self.known, default=-1) + 1

    async def claim(self, number: int) -> bool:
        """Say that we sit there; whether that is so. Of two that claim at once the later one has it."""
        await self.sit(number)
        await self._control.sync()
        return self.is_ours(number)

    def is_ours(self, number: int) -> bool:
        seat = self.known.get(number)
        return seat is not None and seat.member == self._member

    def is_anothers(self, number: int) -> bool:
        seat = self.known.get(number)
        return seat is not None and seat.member not in (None, self._member)

    async def sit(self, number: int) -> None:
        seat = Seat(self._member, self._subscription.sharing, self._subscription.durable)
        await self._control.put(self.table.seat(number), seat.written())

    def left(self) -> Seat:
        """What is written when we have gone, by us or as our will."""
        return Seat(None, self._subscription.sharing, self._subscription.durable, self._member)

    async def leave(self, number: int, *, remove: bool) -> None:
        await self._control.put(self.table.seat(number), b"" if remove else self.left().written())
