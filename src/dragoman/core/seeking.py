"""Finding a moment in a log whose messages are stamped by their senders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

DISORDER = 60_000
"""Milliseconds by which the clocks of senders may differ."""
STRIDE = 1000

Stamps = Callable[[int, int], Sequence[tuple[int, int]]]
"""From an offset on, up to so many: the offset and timestamp of each message."""


def seek(start: int, end: int, timestamp: int, stamps: Stamps) -> int:
    """The first offset whose message has this timestamp (ms) or a later one; ``end`` if there is none.

    Timestamps rise, apart from some disorder: it is halved to where they are surely too early, and walked
    from there.
    """
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        found = stamps(middle, 1)
        if found and found[0][0] < high and found[0][1] < timestamp - DISORDER:
            low = found[0][0] + 1
        else:
            high = middle
    while low < end and (found := stamps(low, STRIDE)):
        for offset, stamp in found:
            if offset >= end:
                return end
            if stamp >= timestamp:
                return offset
        low = found[-1][0] + 1
    return end
