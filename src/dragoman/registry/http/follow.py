"""Following what other nodes do to the same database, so that hot reads do not grow stale."""

from __future__ import annotations

import asyncio
import logging

from dragoman.core.errors import DragomanError
from dragoman.registry.engine import Engine
from dragoman.registry.model import Change
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName
from dragoman.registry.store import history

log = logging.getLogger("dragoman.registry")

INTERVAL = 0.25
"""Seconds. The longest another node's change stays unseen by hot reads."""
_WINDOW = 100
"""Numbers of the history are given before they are committed, so some turn up late."""

EVERYTHING = ContractName(DEFAULT_CONTEXT, "")

_NARROW = frozenset({"register", "import", "hide", "bind", "unbind"})
"""Changes that touch no more than the contract they name."""


class Follower:
    """Reads the history as it grows, and announces what others did as if it had been done here."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: set[int] = set()
        self._newest: int | None = None

    async def run(self) -> None:
        lost = False
        while True:
            try:
                if self._newest is None:
                    self._newest = await self._engine.read(history.newest)
                    self._seen = {change.id for change in await self._recent()}
                self._apply(await self._recent())
            except DragomanError as error:
                if not lost:
                    log.warning("the database cannot be followed: %s", error.what)
                lost = True
            else:
                if lost:
                    self._engine.announce(EVERYTHING)
                lost = False
            await asyncio.sleep(INTERVAL)

    async def _recent(self) -> list[Change]:
        since = max(0, (self._newest or 0) - _WINDOW)
        return list(await self._engine.read(lambda tx: history.since(tx, since)))

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            if change.id not in self._seen:
                narrow = change.action in _NARROW
                self._engine.announce(change.name if narrow else EVERYTHING)
                self._newest = max(self._newest or 0, change.id)
        self._seen = {change.id for change in changes}
