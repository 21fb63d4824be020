"""Where each saga stands, in SQL: one row for each, and what happened to it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dragoman.core.database import Row, Transaction, TransactionConflict
from dragoman.core.errors import ConfigurationError, NotFound

_SELECT = """SELECT id, name, state, step, attempt, sends, waiting, due, data, problem, created, updated,
    version FROM dragoman_sagas"""
_INSERT = """INSERT INTO dragoman_sagas (id, name, state, step, attempt, sends, waiting, due, data, problem,
    created, updated, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_UPDATE = """UPDATE dragoman_sagas SET state = ?, step = ?, attempt = ?, sends = ?, waiting = ?, due = ?,
    data = ?, problem = ?, updated = ?, version = version + 1 WHERE id = ? AND version = ?"""


class State(StrEnum):
    RUNNING = "running"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    REJECTED = "rejected"


STUCK = "stuck"
ENDED = (State.COMPLETED, State.REJECTED)


@dataclass(frozen=True, slots=True)
class Progress:
    """One saga. ``step`` is the one whose answer is awaited.

    ``attempt`` counts the refusals of the step so far, ``sends`` how often its command went out. While it is
    ``waiting``, the answer is ``due``, else the command is to be sent then. A saga that has not ended and is
    never due waits for a person: ``problem`` says why.
    """

    id: str
    name: str
    state: State
    step: int
    attempt: int
    sends: int
    waiting: bool
    due: float | None
    data: str
    problem: str | None
    created: float
    updated: float
    version: int

    @property
    def stuck(self) -> bool:
        return self.due is None and self.state not in ENDED

    def shown(self) -> dict[str, Any]:
        """For people and programs: without what only the orchestrator needs."""
        return {
            "id": self.id,
            "saga": self.name,
            "state": STUCK if self.stuck else str(self.state),
            "step": self.step,
            "attempt": self.attempt,
            "problem": self.problem,
            "created": self.created,
            "updated": self.updated,
            "data": json.loads(self.data),
        }


def insert(tx: Transaction, saga: Progress) -> None:
    tx.execute(_INSERT, _values(saga))


def save(tx: Transaction, saga: Progress) -> None:
    """Raises ``TransactionConflict`` if another transaction has changed it since it was read."""
    tx.execute(
        _UPDATE,
        (
            str(saga.state),
            saga.step,
            saga.attempt,
            saga.sends,
            int(saga.waiting),
            saga.due,
            saga.data,
            saga.problem,
            time.time(),
            saga.id,
            saga.version,
        ),
    )
    if tx.changed != 1:
        raise TransactionConflict(f"The saga {saga.id} was changed meanwhile.")


def find(tx: Transaction, id: str) -> Progress | None:
    rows = tx.execute(_SELECT + " WHERE id = ?", (id,))
    return _progress(rows[0]) if rows else None


def known(tx: Transaction, id: str) -> Progress:
    """Raises ``NotFound``."""
    found = find(tx, id)
    if found is None:
        raise NotFound(f"There is no saga {id!r}.", code="saga.not-found", next="See: dragoman saga list")
    return found


def overdue(tx: Transaction, name: str, now: float, limit: int) -> list[str]:
    rows = tx.execute(
        "SELECT id FROM dragoman_sagas WHERE name = ? AND due <= ? ORDER BY due LIMIT ?", (name, now, limit)
    )
    return [str(row[0]) for row in rows]


def listed(tx: Transaction, limit: int, only: str | None = None) -> list[Progress]:
    """The youngest first; ``only`` those that are shown in this state. Raises ``ConfigurationError``."""
    where, values = "", tuple[str, ...]()
    if only == STUCK:
        where, values = " WHERE due IS NULL AND state NOT IN (?, ?)", tuple(map(str, ENDED))
    elif only in set(State):
        # What is never due has ended, or is stuck.
        where, values = " WHERE state = ?" + ("" if only in ENDED else " AND due IS NOT NULL"), (only,)
    elif only is not None:
        known = ", ".join((*map(str, State), STUCK))
        raise ConfigurationError(f"Sagas are never {only!r}.", next=f"Use one of {known}.")
    rows = tx.execute(_SELECT + where + " ORDER BY created DESC, id LIMIT ?", (*values, limit))
    return [_progress(row) for row in rows]


def note(tx: Transaction, saga: str, event: str) -> None:
    tx.execute(
        "INSERT INTO dragoman_saga_events (saga, happened, event) VALUES (?, ?, ?)",
        (saga, time.time(), event),
    )


def events(tx: Transaction, saga: str) -> Sequence[Row]:
    """When and what, in order."""
    return tx.execute("SELECT happened, event FROM dragoman_saga_events WHERE saga = ? ORDER BY id", (saga,))


def retried(saga: Progress, now: float) -> Progress:
    """Due now, with all its attempts before it."""
    return replace(saga, due=now, sends=0, waiting=False, problem=None)


def _progress(row: Row) -> Progress:
    id, name, state, step, attempt, sends, waiting, *rest = row
    return Progress(id, name, State(state), step, attempt, sends, bool(waiting), *rest)


def _values(saga: Progress) -> tuple[Any, ...]:
    return (
        saga.id,
        saga.name,
        str(saga.state),
        saga.step,
        saga.attempt,
        saga.sends,
        int(saga.waiting),
        saga.due,
        saga.data,
        saga.problem,
        saga.created,
        saga.updated,
        saga.version,
    )
