"""One at a time, over all processes that share a database."""

from __future__ import annotations

import secrets
import time

from dragoman.core.database import Database, TransactionConflict, UniqueViolation


class Lease:
    """A name that one process has, until it gives it up or was not heard of for ``seconds``.

    The clocks of the machines that share it must agree to within a few seconds.
    """

    def __init__(self, database: Database, name: str, seconds: float) -> None:
        self._database = database
        self._name = name
        self._seconds = seconds
        self._owner = secrets.token_hex(8)
        self._renew_at = 0.0

    def take(self) -> bool:
        """Have it, or have it longer. ``False`` if another one has it."""
        now = time.time()
        if now < self._renew_at:
            return True
        taken = self._take(now)
        self._renew_at = now + self._seconds / 3 if taken else 0.0
        return taken

    def _take(self, now: float) -> bool:
        try:
            with self._database.transaction() as tx:
                tx.execute(
                    "UPDATE dragoman_leases SET owner = ?, expires = ?"
                    " WHERE name = ? AND (owner = ? OR expires < ?)",
                    (self._owner, now + self._seconds, self._name, self._owner, now),
                )
                if tx.changed:
                    return True
                if tx.execute("SELECT 1 FROM dragoman_leases WHERE name = ?", (self._name,)):
                    return False
                tx.execute(
                    "INSERT INTO dragoman_leases (name, owner, expires) VALUES (?, ?, ?)",
                    (self._name, self._owner, now + self._seconds),
                )
            return True
        except (UniqueViolation, TransactionConflict):
            return False

    def give_up(self) -> None:
        self._renew_at = 0.0
        with self._database.transaction() as tx:
            tx.execute("DELETE FROM dragoman_leases WHERE name = ? AND owner = ?", (self._name, self._owner))
