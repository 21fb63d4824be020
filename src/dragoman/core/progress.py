"""How far a group is in one partition, when acknowledgement is cumulative and messages may be set aside.

A state machine without input or output. The memory broker keeps it as it is, the embedded broker stores it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Aside(NamedTuple):
    """A message that waits for its next delivery outside the order.

    ``due`` is a moment of this process' monotonic clock. In records of brokers it is one of the wall clock.
    """

    due: float
    tried: int


class Due(NamedTuple):
    """Offsets that were set aside and are due: delivered out of order, or part of the flow again."""

    returned: list[int]
    rejoined: list[int]


class Progress:
    """Offsets below ``position`` are done, apart from those set aside; the *flow* starts there.

    From ``position`` to ``cursor`` the flow is in flight. ``aside`` holds what was released with a delay;
    once due it is delivered out of order and waits in ``returned`` for its acknowledgement. ``tried`` counts
    the earlier deliveries of flow messages that come again; for the others they stand beside them.
    """

    __slots__ = ("_dues", "aside", "cursor", "position", "returned", "tried")

    def __init__(self, position: int) -> None:
        self.position = position
        self.cursor = position
        self.tried: dict[int, int] = {}
        self.aside: dict[int, Aside] = {}
        self.returned: dict[int, int] = {}
        self._dues: list[tuple[float, int]] = []

    @property
    def plain(self) -> bool:
        """The flow can be delivered as it stands."""
        return not (self.aside or self.tried or self.returned)

    @property
    def busy(self) -> bool:
        return self.cursor > self.position or bool(self.returned)

    @property
    def committed(self) -> int:
        """Everything before it is done."""
        return min([self.position, *self.aside, *self.returned])

    def in_flight(self, offset: int) -> bool:
        flow = self.position <= offset < self.cursor and offset not in self.aside
        return flow or offset in self.returned

    def given_back(self, offset: int) -> bool:
        """It will be delivered again: an acknowledgement of the earlier delivery comes too late."""
        return offset in self.aside or (offset >= self.cursor and offset not in self.returned)

    def next_due(self) -> float | None:
        while self._dues:
            due, offset = self._dues[0]
            if offset in self.aside and self.aside[offset].due == due:
                return due
            heapq.heappop(self._dues)
        return None

    def take_due(self, now: float, limit: int) -> Due:
        """Of those set aside whose time has come, some are in flight from now on.

        Those that the cursor has not passed wait for it, in their place: acknowledged before the flow came
        to them, they would be delivered again.
        """
        found = Due([], [])
        while len(found.returned) < limit and (due := self.next_due()) is not None and due <= now:
            offset = heapq.heappop(self._dues)[1]
            tried = self.aside.pop(offset).tried
            if offset < self.cursor:
                self.returned[offset] = tried
                found.returned.append(offset)
            else:
                self.tried[offset] = tried
                found.rejoined.append(offset)
        found.returned.sort()
        return found

    def skips(self, offset: int) -> bool:
        """Not part of the flow any more."""
        return offset in self.aside or offset in self.returned

    def step_over(self) -> None:
        """What stands aside at the front of the flow need not hold it back."""
        while self.skips(self.position):
            self.position += 1
        self.cursor = max(self.cursor, self.position)

    def attempt(self, offset: int) -> int:
        return 1 + (self.returned.get(offset) or self.tried.get(offset, 0))

    def acknowledge(self, offset: int) -> list[int]:
        """This one and all in flight before it are done; those that had been set aside are told."""
        if offset >= self.position:
            self.position = offset + 1
            if self.tried:
                self.tried = {other: count for other, count in self.tried.items() if other > offset}
        done = [other for other in self.returned if other <= offset]
        for other in done:
            del self.returned[other]
        if self.aside or self.returned:
            self.step_over()
        return done

    def release(self, offsets: Iterable[int], due: float | None) -> None:
        """Give back these, and all in flight after the lowest; with ``due`` these are set aside until then.

        Only these count as tried.
        """
        named = set(offsets)
        lowest = min(named)
        for offset in [other for other in self.returned if other >= lowest]:
            tried = self.returned.pop(offset)
            if offset in named:
                named.discard(offset)
                self.put_aside(offset, due or 0.0, tried + 1)
            else:
                self.put_aside(offset, 0.0, tried)
        for offset in named:
            if due is None:
                self.tried[offset] = self.tried.get(offset, 0) + 1
            else:
                self.put_aside(offset, due, self.tried.pop(offset, 0) + 1)
        self.cursor = max(self.position, min(self.cursor, lowest))

    def put_aside(self, offset: int, due: float, tried: int) -> None:
        self.aside[offset] = Aside(due, tried)
        heapq.heappush(self._dues, (due, offset))

    def abandon(self) -> None:
        """The owner is gone: what it was given comes again, and counts as tried."""
        for offset in self.flow():
            self.tried[offset] = self.tried.get(offset, 0) + 1
        for offset, tried in self.returned.items():
            self.put_aside(offset, 0.0, tried + 1)
        self.returned.clear()
        self.cursor = self.position

    def flow(self) -> Iterator[int]:
        """What was delivered in order and is not done."""
        return (offset for offset in range(self.position, self.cursor) if not self.skips(offset))

    def forget_before(self, base: int) -> None:
        """Retention went past us: what is gone cannot be delivered."""
        self.position = max(self.position, base)
        self.cursor = max(self.cursor, base)
        self.tried = {offset: count for offset, count in self.tried.items() if offset >= base}
        self.returned = {offset: count for offset, count in self.returned.items() if offset >= base}
        for offset in [offset for offset in self.aside if offset < base]:
            del self.aside[offset]
