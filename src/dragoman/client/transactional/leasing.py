"""One at a time, over all processes that share a database."""

from __future__ import annotations

import secrets
import time

from dragoman.core.database import Database, TransactionConflict, UniqueViolation


class Lease:
    """A name that one process has, until it gives it up or does not renew it for ``seconds``.

    Another process takes it over after it has seen the row unchanged for so long by its own monotonic clock.
    No clocks are compared: ``expires`` only has to differ each time.
    """

    def __init__(self, database: Database, name: str, seconds: float) -> None:
        self._database = database
        self._name = name
        self._seconds = seconds
        self._owner = secrets.token_hex(8)
        self._renew_at = 0.0
        self._seen: tuple[str, float] = self._owner, 0.0
        """The row of another process, as it was since ``_since``."""
        self._since = 0.0

    def take(self) -> bool:
        """Have it, or have it longer. ``False`` if another one has it."""
        now = time.monotonic()
        if now < self._renew_at:
            return True
        taken = self._take(now)
        self._renew_at = now + self._seconds / 3 if taken else 0.0
        return taken

    def _take(self, now: float) -> bool:
        try:
            with self._database.transaction() as tx:
                expires = time.time() + self._seconds
                silent = self._seen if now - self._since > self._seconds else (self._owner, 0.0)
                tx.execute(
                    "UPDATE dragoman_leases SET owner = ?, expires = ?"
                    " WHERE name = ? AND (owner = ? OR (owner = ? AND expires = ?))",
                    (self._owner, expires, self._name, self._owner, *silent),
                )
                if tx.changed:
                    return True
                rows = tx.execute("SELECT owner, expires FROM dragoman_leases WHERE name = ?", (self._name,))
                if rows:
                    self._observe((rows[0][0], rows[0][1]), now)
                    return False
                tx.execute(
                    "INSERT INTO dragoman_leases (name, owner, expires) VALUES (?, ?, ?)",
                    (self._name, self._owner, expires),
                )
            return True
        except (UniqueViolation, TransactionConflict):
            return False

    def _observe(self, row: tuple[str, float], now: float) -> None:
        if row != self._seen:
            self._seen, self._since = row, now

    def give_up(self) -> None:
        self._renew_at = 0.0
        with self._database.transaction() as tx:
            tx.execute("DELETE FROM dragoman_leases WHERE name = ? AND owner = ?", (self._name, self._owner))
