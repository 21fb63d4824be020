"""Sagas seen from outside: which there are, what happened to one, and another try for one that is stuck."""

from __future__ import annotations

import time
from typing import NamedTuple

from dragoman.client.saga import state
from dragoman.client.saga.state import Progress
from dragoman.client.transactional.tables import SAGA_EVENTS, SAGAS, create_tables
from dragoman.core.database import Database
from dragoman.core.errors import Conflict


class Event(NamedTuple):
    happened: float
    event: str


class Ledger:
    """All sagas of one database. Synchronous."""

    def __init__(self, database: Database) -> None:
        self._database = database
        create_tables(database, (SAGAS, SAGA_EVENTS))

    def list(self, limit: int = 100, *, only: str | None = None) -> list[Progress]:
        """The youngest first; ``only`` those in a state, or ``stuck``."""
        with self._database.transaction(write=False) as tx:
            return state.listed(tx, limit, only)

    def show(self, id: str) -> tuple[Progress, tuple[Event, ...]]:
        """Raises ``NotFound``."""
        with self._database.transaction(write=False) as tx:
            return state.known(tx, id), tuple(Event(*row) for row in state.events(tx, id))

    def retry(self, id: str) -> Progress:
        """Send the command again on which a saga is stuck. Raises ``NotFound``, ``Conflict``."""
        with self._database.transaction() as tx:
            found = state.known(tx, id)
            if not found.stuck:
                raise Conflict(
                    f"The saga {id!r} is {found.state}, and not stuck.",
                    code="saga.not-stuck",
                    next="Only a saga that waits for a person can be tried again.",
                )
            again = state.retried(found, time.time())
            state.save(tx, again)
            state.note(tx, id, "tried again by hand")
            return again
