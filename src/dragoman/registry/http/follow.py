"""Following what other nodes do to the same database, so that hot reads do not grow stale."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from dragoman.core.database import Transaction
from dragoman.registry.engine import Engine
from dragoman.registry.model import Change
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName
from dragoman.registry.store import history

log = logging.getLogger("dragoman.registry")

INTERVAL = 0.25
"""Seconds. The longest another node's change stays unseen by hot reads."""
_PATIENCE = 300.0
"""Seconds. Numbers of the history are given before they are committed; one that is missing may still come."""
_MOST_MISSING = 1000
"""With more of them, everything is forgotten at each look, until they can no longer come."""

_LOOK_BACK = 100
"""How many numbers before the newest are looked at in the beginning, for missing ones."""

EVERYTHING = ContractName(DEFAULT_CONTEXT, "")

_NARROW = frozenset({"register", "import", "hide", "bind", "unbind"})
"""Changes that touch no more than the contract they name."""


class Follower:
    """Reads the history as it grows, and announces what others did as if it had been done here."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._newest: int | None = None
        self._missing: dict[int, float] = {}
        """Numbers below the newest that nobody has used yet, and until when they may be."""
        self._unsure_until = 0.0

    async def run(self) -> None:
        lost = False
        while True:
            try:
                await self.look()
            except Exception as error:
                # Whatever it is: without a look, hot reads would grow stale for ever.
                if not lost:
                    log.warning("the database cannot be followed: %s", error)
                lost = True
            else:
                if lost:
                    self._engine.announce(EVERYTHING)
                lost = False
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Announce what happened since the last look; the first one only finds out where to begin."""
        if self._newest is None:
            newest = await self._engine.read(history.newest)
            self._newest = max(0, newest - _LOOK_BACK)
        newest, missing = self._newest, tuple(self._missing)

        def work(tx: Transaction) -> tuple[Sequence[Change], Sequence[Change]]:
            return history.among(tx, missing), history.since(tx, newest)

        late, new = await self._engine.read(work)
        self._note_missing(newest, [change.id for change in new])
        for change in (*late, *new):
            self._missing.pop(change.id, None)
            self._engine.announce(change.name if change.action in _NARROW else EVERYTHING)
        if time.monotonic() < self._unsure_until:
            self._engine.announce(EVERYTHING)

    def _note_missing(self, before: int, found: Sequence[int]) -> None:
        now = time.monotonic()
        self._missing = {id: until for id, until in self._missing.items() if until > now}
        if not found:
            return
        self._newest = found[-1]
        if found[-1] - before - len(found) + len(self._missing) > _MOST_MISSING:
            self._missing.clear()
            self._unsure_until = now + _PATIENCE
            return
        present = set(found)
        for id in range(before + 1, found[-1]):
            if id not in present:
                self._missing[id] = now + _PATIENCE
