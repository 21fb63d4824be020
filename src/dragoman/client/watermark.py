"""Which message of a partition may be acknowledged when that acknowledges all before it, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from dragoman.core.run import Entry, Run, offset_of


class Watermark:
    """The messages of one partition in flight, and how far they are all finished.

    Messages mostly arrive in order of offset, but one that was given back may come between later ones.
    Nothing is ever acknowledged past an unfinished message.
    """

    __slots__ = ("_finished", "_mark", "_open", "_order")

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._open: set[int] = set()
        self._finished: dict[int, Entry] = {}
        self._mark: Entry | None = None

    def __len__(self) -> int:
        """How many are unfinished."""
        return len(self._open)

    def holds(self, offset: int) -> bool:
        """Whether this message is in flight and unfinished."""
        return offset in self._open

    @property
    def furthest_finished(self) -> int:
        """The highest offset that is finished and waits for an earlier one; less than 0 if none does."""
        return max(self._finished, default=-1)

    def take(self, offset: int) -> bool:
        """Note a message; ``False`` if it is in flight already, or finished and waits for others."""
        if offset in self._open or offset in self._finished:
            return False
        order = self._order
        if order and offset < order[-1]:
            self._order = deque(sorted((*order, offset)))
        else:
            order.append(offset)
        self._open.add(offset)
        return True

    def take_run(self, offsets: Sequence[int]) -> bool:
        """Note messages in order of offset, at once; ``False``, and none of them, if one may be known."""
        order = self._order
        if order and offsets[0] <= order[-1]:
            return False
        order.extend(offsets)
        self._open.update(offsets)
        return True

    def finish_run(self, run: Run, places: Sequence[int]) -> int:
        """Note that messages of a run are done with, in the order in which they were handled.

        Gives how many were in flight: the others were given back or forgotten meanwhile.
        """
        offsets = [run.offsets[at] or 0 for at in places]
        count, order = len(offsets), self._order
        # One may have been handled twice, if it came again meanwhile: each must be the next.
        if list(islice(order, count)) != offsets or not self._open.issuperset(offsets):
            return sum(self.finish((run, at)) for at in places)
        # They are the first of all in flight.
        self._open.difference_update(offsets)
        for _ in range(count):
            order.popleft()
        self._raise((run, places[-1]))
        self._advance()
        return count

    def finish(self, entry: Entry) -> bool:
        """Note that it is done with; ``False`` if it was given back or forgotten meanwhile."""
        offset = offset_of(entry)
        if offset not in self._open:
            return False
        self._open.remove(offset)
        order = self._order
        if order[0] != offset:
            self._finished[offset] = entry
            return True
        order.popleft()
        self._raise(entry)
        self._advance()
        return True

    def _raise(self, mark: Entry) -> None:
        if self._mark is None or offset_of(self._mark) < offset_of(mark):
            self._mark = mark

    def forget(self, offset: int) -> bool:
        """It is not ours any more. Those after it must not wait for it."""
        if offset not in self._open:
            return False
        self._open.remove(offset)
        self._order.remove(offset)
        self._advance()
        return True

    def cut(self, offset: int) -> int:
        """This one and all later ones are given back; how many of them were unfinished."""
        before = len(self._open)
        self._order = deque(each for each in self._order if each < offset)
        self._open = {each for each in self._open if each < offset}
        self._finished = {each: message for each, message in self._finished.items() if each < offset}
        if self._mark is not None and offset_of(self._mark) >= offset:
            self._mark = None
        return before - len(self._open)

    def _advance(self) -> None:
        while self._order and self._order[0] in self._finished:
            self._raise(self._finished.pop(self._order.popleft()))

    def collect(self) -> Entry | None:
        """The message to acknowledge now, once. Held back while an earlier one has come again."""
        mark = self._mark
        if mark is None or (self._order and self._order[0] <= offset_of(mark)):
            return None
        self._mark = None
        return mark

    def restore(self, mark: Entry) -> None:
        """The acknowledgement did not get through: it is due again, unless a later one is."""
        self._raise(mark)
