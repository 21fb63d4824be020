"""How long to wait before something that has failed is tried again: the one formula for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow by ``factor`` from ``first_s`` to ``longest_s`` seconds, before jitter.

    Each is then made longer or shorter at random by up to the share ``jitter`` of it, so that clients that
    failed together do not try again together. With 1.0 a wait is anything from nothing to twice its length.
    """

    first_s: float
    longest_s: float
    factor: float = 2.0
    jitter: float = 0.2

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row; 0 counts as 1."""
        try:
            wait = min(self.longest_s, self.first_s * self.factor ** max(failures - 1, 0))
        except OverflowError:
            wait = self.longest_s if self.first_s else 0.0
        return wait * random.uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else wait

    def waits_s(self) -> Iterator[float]:
        """The waits after the first failure, the second, and so on, without end."""
        failures = 0
        while True:
            failures += 1
            yield self.wait_s(failures)


RECONNECT = Backoff(0.1, 5.0)
"""For connections to servers, and what is asked of them."""


def contention(first_s: float, longest_s: float) -> Backoff:
    """For those who get into each other's way, and are best spread evenly."""
    return Backoff(first_s, longest_s, jitter=1.0)
