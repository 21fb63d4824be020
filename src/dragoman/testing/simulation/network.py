"""A network between one member and a server, on which calls fail before or after they take effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import TypeVar

from dragoman.core.errors import BrokerUnavailable

T = TypeVar("T")

LATENCIES_S = (None, None, 0.0, 0.0, 0.001, 0.03)
"""How long a call is under way, each way; ``None`` if the caller does not even wait."""
SLOW_S = 1.5
HANG_S = 30.0
"""A call that hangs is given up after so long, as drivers do."""


class How(StrEnum):
    """What becomes of one call."""

    BEFORE = "fails before it has taken effect"
    AFTER = "fails after it has taken effect"
    SLOW = "is slow"
    HANG = "hangs, then fails"
    HANG_AFTER = "takes effect, then hangs and fails"


class Network:
    """What all members share. ``random`` decides the latencies."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_down = False


class Link:
    """One member's way to the server."""

    def __init__(self, network: Network) -> None:
        self.is_cut = False
        self.failures = 0
        """How many calls have failed, as far as the member can tell."""
        self._network = network
        self._faults: dict[str, list[How]] = {}

    def fail(self, operation: str, how: How) -> None:
        """Decide what becomes of the next call of this operation."""
        self._faults.setdefault(operation, []).append(how)

    def heal(self) -> None:
        self.is_cut = False
        self._faults.clear()

    async def call(self, operation: str, effect: Callable[[], T]) -> T:
        """One call. ``effect`` is what the server does, in one go."""
        faults = self._faults.get(operation)
        how = faults.pop(0) if faults else None
        await self._travel()
        if how is How.SLOW:
            await asyncio.sleep(SLOW_S)
        elif how is How.HANG:
            await asyncio.sleep(HANG_S)
        if how in (How.BEFORE, How.HANG) or self._is_away():
            raise self._broken(operation)
        result = effect()
        await self._travel()
        if how is How.HANG_AFTER:
            await asyncio.sleep(HANG_S)
        if how in (How.AFTER, How.HANG_AFTER) or self._is_away():
            raise self._broken(operation)
        return result

    async def _travel(self) -> None:
        latency = self._network.random.choice(LATENCIES_S)
        if latency is not None:
            await asyncio.sleep(latency)

    def _is_away(self) -> bool:
        return self.is_cut or self._network.is_down

    def _broken(self, operation: str) -> BrokerUnavailable:
        self.failures += 1
        return BrokerUnavailable("The simulated network is broken.", operation=operation)
