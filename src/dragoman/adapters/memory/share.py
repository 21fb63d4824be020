"""What one group has done with one partition, and what it has in flight there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.adapters.memory.partition import Partition
from dragoman.core.message import Message

if TYPE_CHECKING:
    from dragoman.adapters.memory.receiver import MemoryReceiver


class Share:
    """A group's place in a partition, owned by one member at a time.

    Offsets below ``position`` are done, apart from those set aside. Those from ``position`` to ``cursor`` are
    in flight. ``aside`` holds messages that were released with a delay, and when they are due; once due they
    are delivered out of order and wait in ``returned`` for their acknowledgement.
    ``attempts`` counts the earlier deliveries of messages that come again.
    """

    __slots__ = ("aside", "attempts", "cursor", "leave_by", "log", "owner", "position", "returned")

    def __init__(self, log: Partition, position: int) -> None:
        self.log = log
        self.position = position
        self.cursor = position
        self.attempts: dict[int, int] = {}
        self.aside: dict[int, float] = {}
        self.returned: set[int] = set()
        self.owner: MemoryReceiver | None = None
        self.leave_by: float | None = None

    @property
    def busy(self) -> bool:
        return self.cursor > self.position or bool(self.returned)

    @property
    def committed(self) -> int:
        """Everything before it is done."""
        return min([self.position, *self.aside, *self.returned])

    def take(self, limit: int, now: float) -> list[Message]:
        if self.position < self.log.base:
            self._skip_dropped()
        if not self.aside and not self.attempts and not self.returned:
            taken = self.log.slice(self.cursor, limit)
            self.cursor += len(taken)
            return taken
        return self._take_with_care(limit, now)

    def _take_with_care(self, limit: int, now: float) -> list[Message]:
        taken = []
        for offset in sorted(offset for offset, due in self.aside.items() if due <= now)[:limit]:
            del self.aside[offset]
            self.returned.add(offset)
            taken.append(self._delivery(offset))
        while len(taken) < limit and self.cursor < self.log.end:
            if self.cursor not in self.aside and self.cursor not in self.returned:
                taken.append(self._delivery(self.cursor))
            self.cursor += 1
        return taken

    def _delivery(self, offset: int) -> Message:
        message = self.log.messages[offset - self.log.base]
        earlier = self.attempts.get(offset, 0)
        return message._replace(attempt=earlier + 1) if earlier else message

    def _skip_dropped(self) -> None:
        """Retention went past us."""
        base = self.log.base
        self.position = base
        self.cursor = max(self.cursor, base)
        self.returned = {offset for offset in self.returned if offset >= base}
        for offset in [offset for offset in self.aside if offset < base]:
            del self.aside[offset]
        self._forget_attempts()

    def in_flight(self, offset: int) -> bool:
        return offset in self.returned or (self.position <= offset < self.cursor and offset not in self.aside)

    def given_back(self, offset: int) -> bool:
        """It will be delivered again, so that an acknowledgement of the earlier delivery comes too late."""
        return offset in self.aside or (offset >= self.cursor and offset not in self.returned)

    def acknowledge(self, offset: int) -> None:
        """This one and all in flight before it are done."""
        if offset >= self.position:
            self.position = offset + 1
        if self.returned:
            self.returned = {other for other in self.returned if other > offset}
        if self.attempts:
            self._forget_attempts()

    def _forget_attempts(self) -> None:
        kept = self.aside.keys() | self.returned
        self.attempts = {
            offset: count
            for offset, count in self.attempts.items()
            if offset >= self.position or offset in kept
        }

    def release(self, offsets: set[int], due: float | None) -> None:
        """Give back these and all in flight after the lowest; with ``due`` set these aside until then."""
        lowest = min(offsets)
        for offset in offsets:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        for offset in [offset for offset in self.returned if offset >= lowest]:
            self.returned.discard(offset)
            self.aside[offset] = 0.0
        if due is not None:
            self.aside.update(dict.fromkeys(offsets, due))
        self.cursor = max(self.position, min(self.cursor, lowest))

    def abandon(self) -> None:
        """The owner is gone: what it had in flight comes again, and counts as tried."""
        flow = (offset for offset in range(self.position, self.cursor) if offset not in self.aside)
        for offset in {*flow, *self.returned}:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        self.aside.update(dict.fromkeys(self.returned, 0.0))
        self.returned.clear()
        self.cursor = self.position
        self.owner = None
        self.leave_by = None
