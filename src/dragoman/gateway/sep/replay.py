"""What came before is not taken again: datagrams of a session, and openings of sessions."""

from __future__ import annotations

from collections import OrderedDict

_WIDTH = 4096
_REMEMBERED = 1024
_AHEAD = 10.0
"""Seconds by which a client's clock may be ahead. What is forgotten early sets a floor under all later
openings; with more, somebody could raise that floor above the clocks of all others."""


class NumberWindow:
    """Which numbers have been seen, as far back as datagrams may overtake each other."""

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0
        """Bit ``i`` stands for the highest number less ``i``."""

    @property
    def highest(self) -> int:
        return self._highest

    def take(self, number: int) -> bool:
        """Whether the number is new; it is not afterwards."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = ((self._seen << min(ahead, _WIDTH)) | 1) & ((1 << _WIDTH) - 1)
            self._highest = number
            return True
        bit = 1 << min(-ahead, _WIDTH)
        if -ahead >= _WIDTH or self._seen & bit:
            return False
        self._seen |= bit
        return True


class Finished:
    """Streams that are over: all below a mark, and some above it. A client counts its streams upwards."""

    def __init__(self) -> None:
        self._mark = 0
        self._above: set[int] = set()

    def __contains__(self, stream: int) -> bool:
        return stream < self._mark or stream in self._above

    def add(self, stream: int) -> None:
        if stream >= self._mark:
            self._above.add(stream)
        if len(self._above) > _REMEMBERED:
            self._mark = min(self._above)
        while self._mark in self._above:
            self._above.remove(self._mark)
            self._mark += 1


class Openings:
    """The keys that sessions were opened with, for as long as such an opening could be sent again."""

    def __init__(self, window: float, limit: int) -> None:
        self._window = window
        self._limit = limit
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        """The client's time by its key."""
        self._floor = 0.0

    def timely(self, sent: float, now: float) -> bool:
        return sent > self._floor and -self._window <= sent - now <= _AHEAD

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
