"""How long things took, counted by size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Seconds."""
LEAST = BOUNDS[0]


class Histogram:
    """``observe`` is called for each message that is not quick, so it does next to nothing."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[0 if seconds <= LEAST else bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def observe_quick(self, count: int, seconds: float) -> None:
        """So many that took no longer than ``LEAST`` each, and so long together."""
        self._counts[0] += count
        self.total += seconds

    def add(self, other: Histogram) -> None:
        """What the other has counted, too."""
        self._counts = [sum(pair) for pair in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """For each bound, and for infinity, how many took no longer."""
        seen = 0
        for bound, count in zip((*BOUNDS, float("inf")), self._counts, strict=True):
            seen += count
            yield bound, seen
