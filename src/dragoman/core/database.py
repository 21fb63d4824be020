"""The database port: SQL over one of several databases, for the registry, outbox, sagas and gateway.

Synchronous by nature; asynchronous callers use a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Run one statement with ``?`` placeholders; the rows it gives, none for a write.

        That a write failed may be told by a later call, at the latest by the commit.
        """

    def insert_id(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run an INSERT into a table with an identity column ``id``; the number it was given."""

    @property
    def changed(self) -> int:
        """How many rows the last write touched."""


class UniqueViolation(Exception):
    """An INSERT or UPDATE broke a unique constraint. The transaction is over."""


class TransactionConflict(Exception):
    """The database ended the transaction in favour of another. Doing it again may succeed."""


class Database(Protocol):
    """Safe for many threads. Built from a URL: ``load(DATABASES, scheme)(url)``."""

    url: str
    dialect: str
    """``sqlite``, ``postgres`` or ``mysql``: for the few statements that must differ."""

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """Serialised against other writers where the dialect needs it; committed at a clean exit.

        Raises ``UniqueViolation``, ``TransactionConflict``, and ``RegistryUnavailable`` when the database
        cannot be reached.
        """

    def close(self) -> None: ...
