"""SQLite behind the database port: one file shared by any number of processes, or memory.

``sqlite:///var/lib/registry.db`` is an absolute path, ``sqlite://data/registry.db`` a relative one,
``sqlite://:memory:`` lives and dies with its process. ``?timeout=30`` is how long a writer waits.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.core.database import Row, UniqueViolation
from dragoman.core.errors import ConfigurationError, RegistryUnavailable
from dragoman.core.loading import path_of, query_of

_UNIQUE = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID"})
MEMORY = ":memory:"


class SqliteTransaction:
    """One transaction on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.changed = 0

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        cursor = self._connection.execute(sql, parameters)
        self.changed = max(cursor.rowcount, 0)
        return cursor.fetchall()

    def insert_id(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        cursor = self._connection.execute(sql, parameters)
        self.changed = max(cursor.rowcount, 0)
        return int(cursor.lastrowid or 0)


class SqliteDatabase:
    """Connections are pooled; writers of this process queue here, those of others in SQLite."""

    dialect = "sqlite"

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = path_of(url) or MEMORY
        options = query_of(url)
        try:
            self._timeout = float(options.pop("timeout", "30"))
        except ValueError:
            raise ConfigurationError("The option 'timeout' is a number of seconds.", url=url) from None
        if options:
            raise ConfigurationError(
                f"SQLite has no option {sorted(options)[0]!r}.", next="There is: timeout."
            )
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._writer = threading.Lock()
        self._prepared = False
        self._closed = False
        if self.path != MEMORY:
            _make_folder(Path(self.path).parent)

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[SqliteTransaction]:
        # A database in memory is one connection, so its readers queue with its writers.
        if write or self.path == MEMORY:
            with self._writer:
                yield from self._run("BEGIN IMMEDIATE")
        else:
            yield from self._run("BEGIN")

    def _run(self, begin: str) -> Iterator[SqliteTransaction]:
        connection = self._take()
        try:
            with _translated(self.path):
                connection.execute(begin)
                try:
                    yield SqliteTransaction(connection)
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        finally:
            self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise RegistryUnavailable("The database was closed.", database=self.path)
            if self._idle:
                return self._idle.pop()
            with _translated(self.path):
                return self._open()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            if self._closed or connection.in_transaction:
                connection.close()
            else:
                self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        if self.path != MEMORY:
            if not self._prepared:
                self._prepare(connection)
            connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Two processes that open a new file at once may both be told it is busy, without any waiting.
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._prepared = True

    def backup(self, target: str) -> None:
        """Copy the whole database, as it is at one instant, while others go on writing."""
        connection = self._take()
        try:
            with _translated(target):
                copy = sqlite3.connect(target)
                try:
                    connection.backup(copy)
                finally:
                    copy.close()
        finally:
            self._give_back(connection)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The folder of the database cannot be made: {error}.", next="Use a path that can be written to."
        ) from error


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """SQLite's errors as the port's."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorname in _UNIQUE:
            raise UniqueViolation(str(error)) from error
        raise
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR":
            raise
        raise RegistryUnavailable(
            f"The database cannot be used: {error}.",
            next="Is the path right, the disk not full, and no other program holding the file?",
            database=path,
        ) from error
