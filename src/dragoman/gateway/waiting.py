"""Collections that wait for a response to come: woken by this gateway, or by what others have stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dragoman.core.ending import end
from dragoman.core.errors import NotNow
from dragoman.gateway.store.port import Place, Store

log = logging.getLogger("dragoman.gateway")

_INTERVAL = 0.25


class Waiting:
    """One look at the store serves all who wait, however many they are."""

    def __init__(self, store: Store, most: int, clock: Callable[[], float]) -> None:
        self._store = store
        self._most = most
        self._clock = clock
        self._waiters: dict[Place, set[asyncio.Event]] = {}
        self._count = 0
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return self._count

    async def wait(self, place: Place, seconds: float) -> bool:
        """Whether something may have come. At once ``False`` when too many wait already, or it is closed."""
        if self._closed or self._count >= self._most:
            return False
        event = asyncio.Event()
        self._waiters.setdefault(place, set()).add(event)
        self._count += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
                return not self._closed
        except TimeoutError:
            return False
        finally:
            self._count -= 1
            others = self._waiters[place]
            others.discard(event)
            if not others:
                del self._waiters[place]

    def wake(self, place: Place) -> None:
        for event in self._waiters.get(place, ()):
            event.set()

    async def _look(self) -> None:
        """Other gateways store responses, too."""
        try:
            while self._waiters:
                await asyncio.sleep(_INTERVAL)
                try:
                    for place in await self._store.present(list(self._waiters), self._clock()):
                        self.wake(place)
                except NotNow:
                    log.info("The store is away; those who wait go on waiting.")
        finally:
            self._looking = None

    async def close(self) -> None:
        """All who wait go away with nothing."""
        self._closed = True
        for events in self._waiters.values():
            for event in events:
                event.set()
        if self._looking is not None:
            await end(self._looking)
