"""How many responses may wait for one owner."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.core.errors import NotNow
from dragoman.gateway.store.port import Store

_REMEMBERED = 1.0
_MOST = 10_000


class Quota:
    """The count is asked once a second per owner, so it may be overrun by what comes in that time."""

    def __init__(self, store: Store, most: int, clock: Callable[[], float]) -> None:
        self._store = store
        self._most = most
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}

    async def check(self, owner: str) -> None:
        """Raises ``NotNow`` when too much waits."""
        now = self._clock()
        count, at = self._known.get(owner, (0, 0.0))
        if now - at > _REMEMBERED:
            if len(self._known) >= _MOST:
                self._known.clear()
            # Noted first, so that those who come meanwhile do not all ask.
            self._known[owner] = (count, now)
            count = await self._store.waiting(owner, self._most, now)
            self._known[owner] = (count, now)
        if count >= self._most:
            error = NotNow(
                "Too many responses wait to be collected.",
                code="gateway.quota",
                next="Collect some of them first.",
            )
            error.retry_after = 5.0
            raise error
