"""Rests that end early when the client closes."""

from __future__ import annotations

import asyncio


class Pauses:
    """Call it with seconds; it tells whether the rest was undisturbed."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()

    def end(self) -> None:
        """From now on nobody rests."""
        self._closing.set()

    async def __call__(self, seconds: float) -> bool:
        if self._closing.is_set():
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return True
        return False
