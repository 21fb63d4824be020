"""Time: the machine's, or one that a test moves by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    manual: bool
    """Timers cannot be used to wait for a moment: ``on_advance`` tells when one has come."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that steps of the clock do not change: for leases and delays within this process."""

    def on_advance(self, callback: Callable[[], None]) -> None: ...


class SystemClock:
    manual = False
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def on_advance(self, callback: Callable[[], None]) -> None:
        """It moves by itself; nobody has to be told."""


class ManualClock:
    """A clock that stands still until ``advance``: delays and leases are tested without waiting for them."""

    manual = True

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def on_advance(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for callback in self._callbacks:
            callback()


def to_wall_clock(moment: float) -> float:
    """A moment of this process' monotonic clock as seconds since the epoch, for another process to read."""
    return moment - time.monotonic() + time.time()


def from_wall_clock(moment: float) -> float:
    """The inverse: from here on, steps of the clock do not change how long it takes until then."""
    return moment - time.time() + time.monotonic()
