"""MySQL and MariaDB behind the database port, for nodes that share one database.

``mysql://user:password@host:3306/name``, with the options ``pool`` (the most connections open at once),
``timeout`` (seconds to connect) and ``ssl_ca`` (a file of certificates to trust; turns TLS on).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, ER

from dragoman.core.database import Row, TransactionConflict, UniqueViolation
from dragoman.core.errors import ConfigurationError, RegistryUnavailable
from dragoman.core.loading import query_of, redacted

_RECORD_CHANGED = 1020
"""MariaDB's word that a row changed since this transaction read it."""
_CONFLICTS = frozenset({ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, _RECORD_CHANGED})
_READ = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
_WRITE = ("START TRANSACTION",)


class MysqlTransaction:
    """One transaction on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self.changed = 0

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        with self._connection.cursor() as cursor:
            self.changed = max(cursor.execute(_placed(sql), tuple(parameters)), 0)
            return cursor.fetchall() if cursor.description else ()

    def insert_id(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self._connection.cursor() as cursor:
            self.changed = max(cursor.execute(_placed(sql), tuple(parameters)), 0)
            return int(cursor.lastrowid or 0)


class MysqlDatabase:
    """A small pool of connections. One that broke is replaced, once, without the caller noticing."""

    dialect = "mysql"

    def __init__(self, url: str) -> None:
        self.url = redacted(url)
        self._target, most = _target(url)
        self._room = threading.BoundedSemaphore(most)
        self._idle: list[Connection[Any]] = []
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[MysqlTransaction]:
        with self._room, _translated(self.url):
            connection = self._begin(_WRITE if write else _READ)
            try:
                yield MysqlTransaction(connection)
                connection.commit()
            except BaseException:
                _abandon(connection)
                raise
            finally:
                self._give_back(connection)

    def _begin(self, statements: Sequence[str]) -> Connection[Any]:
        while True:
            with self._guard:
                if self._closed:
                    raise RegistryUnavailable("The database was closed.", database=self.url)
                pooled = self._idle.pop() if self._idle else None
            connection = pooled or Connection(**self._target)
            try:
                with connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
                return connection
            except pymysql.err.Error:
                _drop(connection)
                # The server may have been restarted since this one was last used.
                if pooled is None:
                    raise

    def _give_back(self, connection: Connection[Any]) -> None:
        with self._guard:
            if self._closed or not connection.open:
                _drop(connection)
            else:
                self._idle.append(connection)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            for connection in self._idle:
                _drop(connection)
            self._idle.clear()


def _abandon(connection: Connection[Any]) -> None:
    try:
        connection.rollback()
    except (pymysql.err.Error, OSError):
        _drop(connection)


def _drop(connection: Connection[Any]) -> None:
    if connection.open:
        try:
            connection.close()
        except (pymysql.err.Error, OSError):
            connection._force_close()  # type: ignore[attr-defined]


@lru_cache(maxsize=1024)
def _placed(sql: str) -> str:
    """pymysql's placeholders for the port's."""
    return sql.replace("%", "%%").replace("?", "%s")


def _target(url: str) -> tuple[dict[str, Any], int]:
    parts = urlsplit(url)
    options = query_of(url)
    try:
        most, timeout = int(options.pop("pool", "10")), float(options.pop("timeout", "5"))
        port = parts.port or 3306
    except ValueError as error:
        raise ConfigurationError(f"The database's URL cannot be used: {error}", url=redacted(url)) from None
    ssl_ca = options.pop("ssl_ca", None)
    if options:
        raise ConfigurationError(
            f"MySQL has no option {min(options)!r}.", next="There are pool, timeout and ssl_ca."
        )
    target: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")),
        "charset": "utf8mb4",
        "connect_timeout": timeout,
        "autocommit": True,
        # Rows that an UPDATE found count, changed or not: as the other databases count.
        "client_flag": CLIENT.FOUND_ROWS,
        "init_command": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    }
    if ssl_ca:
        target["ssl"] = {"ca": ssl_ca}
    return target, max(1, most)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """pymysql's errors as the port's."""
    try:
        yield
    except pymysql.err.IntegrityError as error:
        if error.args and error.args[0] == ER.DUP_ENTRY:
            raise UniqueViolation(str(error)) from error
        raise
    except (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError) as error:
        if error.args and error.args[0] in _CONFLICTS:
            raise TransactionConflict(str(error)) from error
        raise RegistryUnavailable(
            f"The database cannot be used: {error}",
            next="Is the server running, and are address, user and password right?",
            database=url,
        ) from error
