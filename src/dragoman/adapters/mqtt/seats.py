"""The seats of a group at a channel, one to a partition: each is a session that the server keeps.

The server puts messages into every session, whether somebody is there or not. So all seats have to be taken,
always: those of members that left or died are taken by the others, and who comes anew gets some of theirs.
Who sits where stands in retained messages. A member's last will frees its seats.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.adapters.mqtt.channels import level
from dragoman.adapters.mqtt.control import Control
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.partitioning import check_company, check_durability, fair_shares

BEAT = 2.0
"""Seconds between two signs of life of a member."""
SILENCE = 8.0
"""After so many seconds without one a member is taken for dead, if its will has not told so before."""
TEMPORARY = 60
"""Seconds that a group which is not durable outlives a member that died."""


class Seat(NamedTuple):
    """``member`` is ``None`` if nobody sits there; ``before`` is who did.

    ``kept`` says that its session is there and keeps what is published. A claim alone does not make it so.
    """

    member: str | None
    sharing: Sharing
    durable: bool
    before: str | None = None
    kept: bool = False

    def written(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def read_seat(raw: bytes) -> Seat | None:
    try:
        found = json.loads(raw)
        sharing, durable = Sharing(found["sharing"]), bool(found["durable"])
        return Seat(found["member"], sharing, durable, found["before"], bool(found.get("kept", True)))
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

    @property
    def beats(self) -> str:
        """Where members give signs of life."""
        return f"{self.prefix}/beats/{level(self.group)}/{level(self.channel)}"

    def client(self, number: int) -> str:
        """Of the session: the same for whoever sits there."""
        return f"{self.prefix}/{level(self.group)}/{level(self.channel)}/{number}"


class Seats:
    """What one member knows of the seats at one channel, and which of them it should have."""

    def __init__(
        self, control: Control, table: Table, subscription: Subscription, member: str, partitions: int
    ) -> None:
        self.table = table
        self.known: dict[int, Seat] = {}
        self._control = control
        self._subscription = subscription
        self._member = member
        self._partitions = partitions
        self._heard: dict[str, float] = {}

    def forget(self) -> None:
        """The server tells all anew; those who are alive have time to say so."""
        self.known.clear()
        self._heard.clear()

    def told(self, topic: str, payload: bytes) -> None:
        number = topic.rpartition("/")[2]
        if not number.isdecimal():
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
            self._heard[seat.member] = time.monotonic()
        elif seat.before is not None:
            self._heard.pop(seat.before, None)

    def heard(self, topic: str, payload: bytes) -> None:
        """A sign of life, or with a minus before it a goodbye."""
        member = payload.decode(errors="replace")
        if member.startswith("-"):
            self._heard.pop(member[1:], None)
        else:
            self._heard[member] = time.monotonic()

    def members(self) -> list[str]:
        """Those who are there, ourselves always."""
        now = time.monotonic()
        return sorted({self._member, *(each for each, at in self._heard.items() if now - at < SILENCE)})

    def taken(self) -> dict[str, list[int]]:
        """The seats of those who are there."""
        found: dict[str, list[int]] = {member: [] for member in self.members()}
        for number, seat in sorted(self.known.items()):
            if seat.member in found:
                found[seat.member].append(number)
        return found

    def ours(self) -> list[int]:
        """Seats that we have, or should sit down on: free ones, and those of which another has too many."""
        taken = self.taken()
        total = self._total()
        free = sorted(set(range(total)) - {number for some in taken.values() for number in some})
        mine = taken[self._member]
        if self._subscription.sharing in (Sharing.EXCLUSIVE, Sharing.FAILOVER):
            # Who has the first seat has them all.
            return [*mine, *free] if 0 in mine else [0] if 0 in free else []
        shares = fair_shares(self.table.channel, total, list(taken))
        room = shares[self._member] - len(mine)
        if room <= 0:
            return mine
        turn = list(taken).index(self._member)
        crowded = [number for member, some in taken.items() for number in some[max(0, shares[member]) :]]
        return [*mine, *[*free[turn:], *free[:turn], *crowded][:room]]

    def _total(self) -> int:
        return max(self._partitions, max(self.known, default=-1) + 1)

    def not_kept(self) -> set[int]:
        """Seats where what is published now could get lost, as far as we are told."""
        return {number for number in range(self._total()) if not self._is_kept(number)}

    def _is_kept(self, number: int) -> bool:
        return number in self.known and self.known[number].kept

    def is_in_the_way(self) -> bool:
        """Of a group that does not share, another one has the first seat."""
        single = self._subscription.sharing in (Sharing.EXCLUSIVE, Sharing.FAILOVER)
        taken = self.taken()
        return single and bool(taken[self._member]) and not self.is_ours(0) and self.is_anothers(0)

    def check_company(self) -> None:
        """Raises ``GroupTaken`` or ``ConfigurationError`` if those who are there do not want us."""
        for member, numbers in self.taken().items():
            if member == self._member:
                continue
            for seat in (self.known[number] for number in numbers):
                check_company(self._subscription, [(seat.sharing, (self.table.channel,))])
                check_durability(self._subscription, seat.durable)
        if any(seat.durable for seat in self.known.values() if seat.member is None):
            # Nobody is there, but what was sent meanwhile waits for whoever comes back.
            check_durability(self._subscription, True)

    def check_first(self) -> None:
        """Raises ``GroupTaken`` if another one, who came at the same time, has the first seat."""
        if self.is_anothers(0):
            check_company(self._subscription, [(self.known[0].sharing, (self.table.channel,))])

    async def claim(self, number: int) -> bool:
        """Say that we sit there; whether that is so. Of two that claim at once the later one has it."""
        await self._put(number, safe=False, kept=self._is_kept(number))
        await self._control.sync()
        return self.is_ours(number)

    def is_ours(self, number: int) -> bool:
        seat = self.known.get(number)
        return seat is not None and seat.member == self._member

    def is_anothers(self, number: int) -> bool:
        seat = self.known.get(number)
        return seat is not None and seat.member not in (None, self._member)

    async def sit(self, number: int) -> None:
        """Have it written down for good, and with it the session that was opened before."""
        await self._put(number, safe=True, kept=True)

    async def _put(self, number: int, *, safe: bool, kept: bool) -> None:
        seat = Seat(self._member, self._subscription.sharing, self._subscription.durable, kept=kept)
        await self._control.put(self.table.seat(number), seat.written(), safe=safe)

    async def beat(self) -> None:
        await self._control.tell(self.table.beats, self._member.encode())

    async def say_goodbye(self) -> None:
        await self._control.tell(self.table.beats, b"-" + self._member.encode())

    def left(self, number: int) -> Seat:
        """What is written when we have gone, by us or as our will."""
        durable = self._subscription.durable
        kept = durable and self._is_kept(number)
        return Seat(None, self._subscription.sharing, durable, self._member, kept)

    async def leave(self, number: int) -> None:
        await self._control.put(self.table.seat(number), self.left(number).written())

    async def remove(self, number: int) -> None:
        """Nobody is to find it again."""
        await self._control.put(self.table.seat(number), b"")
