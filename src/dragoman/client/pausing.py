"""Rests that end early when the client closes."""

from __future__ import annotations

import asyncio

from dragoman.core.broker import Broker
from dragoman.core.clock import Clock, SystemClock


class Pauses:
    """Call it with seconds; it tells whether the rest was undisturbed.

    With a clock that is moved by hand, a rest ends when the clock has come that far.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._closing = asyncio.Event()
        self._moved = asyncio.Event()
        self.now = self._clock.now
        self._clock.on_advance(self._advanced)

    def end(self) -> None:
        """From now on nobody rests."""
        self._closing.set()
        self._advanced()

    async def __call__(self, seconds: float) -> bool:
        if self._closing.is_set():
            return False
        if self._clock.manual:
            return await self._until(self.now() + seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return True
        return False

    async def _until(self, moment: float) -> bool:
        while not self._closing.is_set():
            if self.now() >= moment:
                return True
            await self._moved.wait()
        return False

    def _advanced(self) -> None:
        # All who wait are woken, and look at the clock again.
        self._moved.set()
        self._moved = asyncio.Event()


def clock_of(broker: Broker) -> Clock:
    """A client runs by its broker's clock, if that has one of its own."""
    found: Clock | None = getattr(broker, "clock", None)
    return found or SystemClock()
