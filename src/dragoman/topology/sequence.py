"""Which numbers of a sequence came, which came twice, and which are missing, exactly."""

from __future__ import annotations

from bisect import bisect_right

MOST_GAPS = 4096
"""Older gaps are closed for good: what they lack stays counted, even if it should still come."""


class Sequence:
    """The numbers of one sender, from the first that was heard of.

    What a sender says of itself (``reach``) is kept apart from what has come (``take``). Only the last that
    it said counts, so a false word has no effect as soon as a true one comes.
    """

    __slots__ = ("_begun", "_closed", "_gaps", "_next", "_said", "duplicates", "received")

    def __init__(self) -> None:
        self._next: int | None = None
        self._begun = False
        """A number has come. Before that, ``_next`` is only what the sender said."""
        self._said = -1
        self._gaps: list[tuple[int, int]] = []
        self.received = 0
        self.duplicates = 0
        self._closed = 0

    def take(self, number: int) -> bool:
        """Whether this one is new."""
        if not self._begun:
            self._begun = True
            if self._next is None or number < self._next:
                self._next = number
        if number == self._next or self._next is None:
            self._next = number + 1
        elif number > self._next:
            self._lack(self._next, number)
            self._next = number + 1
        elif not self._fill(number):
            self.duplicates += 1
            return False
        self.received += 1
        return True

    def reach(self, number: int) -> None:
        """The sender says that this is the last number it has used: what is not here by now is missing."""
        if not self._begun and (self._next is None or number < self._next):
            self._next = number + 1
        self._said = number

    @property
    def missing(self) -> int:
        said = 0 if self._next is None else max(0, self._said + 1 - self._next)
        return self._closed + said + sum(end - start for start, end in self._gaps)

    def _lack(self, start: int, end: int) -> None:
        self._gaps.append((start, end))
        if len(self._gaps) > MOST_GAPS:
            first, last = self._gaps.pop(0)
            self._closed += last - first

    def _fill(self, number: int) -> bool:
        place = bisect_right(self._gaps, (number, 1 << 80)) - 1
        if place < 0:
            return False
        start, end = self._gaps[place]
        if not start <= number < end:
            return False
        self._gaps[place : place + 1] = [
            gap for gap in ((start, number), (number + 1, end)) if gap[0] < gap[1]
        ]
        return True
