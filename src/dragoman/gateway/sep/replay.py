"""What came before is not taken again: datagrams of a session, and openings of sessions."""

from __future__ import annotations

from collections import OrderedDict

_WIDTH = 4096


class NumberWindow:
    """Which numbers have been seen, as far back as datagrams may overtake each other."""

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0
        """Bit ``i`` stands for the highest number less ``i``."""

    def take(self, number: int) -> bool:
        """Whether the number is new; it is not afterwards."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = ((self._seen << min(ahead, _WIDTH)) | 1) & ((1 << _WIDTH) - 1)
            self._highest = number
            return True
        bit = 1 << -ahead
        if -ahead >= _WIDTH or self._seen & bit:
            return False
        self._seen |= bit
        return True


class Openings:
    """The keys that sessions were opened with, for as long as such an opening could be sent again."""

    def __init__(self, window: float, limit: int) -> None:
        self._window = window
        self._limit = limit
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        """The client's time by its key."""
        self._floor = 0.0

    def timely(self, sent: float, now: float) -> bool:
        return sent > self._floor and abs(now - sent) <= self._window

    def take(self, public: bytes, sent: float, now: float) -> bool:
        """Whether this opening is new. ``sent`` is the client's time, which was found timely."""
        while self._seen and next(iter(self._seen.values())) < now - self._window:
            self._seen.popitem(last=False)
        if public in self._seen:
            return False
        if len(self._seen) >= self._limit:
            # What is forgotten early must not be taken again: nothing that old is, from here on.
            self._floor = max(self._floor, self._seen.popitem(last=False)[1])
        self._seen[public] = sent
        return True
