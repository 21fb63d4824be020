"""PostgreSQL behind the database port, for nodes that share one database.

``postgresql://user:password@host:5432/name?sslmode=require``: libpq's own options, and ``pool``, the
most connections that are open at once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, LiteralString
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo, errors

from dragoman.core.database import Row, TransactionConflict, UniqueViolation
from dragoman.core.errors import ConfigurationError, RegistryUnavailable
from dragoman.core.loading import redacted

_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"

Connection = psycopg.Connection[Row]


class PostgresTransaction:
    """One transaction on one connection.

    Writes travel through a pipeline: a statement that gives no rows is not waited for. If it fails, the next
    one that is waited for says so, at the latest the commit.
    """

    def __init__(self, connection: Connection, pipeline: psycopg.Pipeline | None = None) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._last: psycopg.Cursor[Row] | None = None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        self._last = self._connection.execute(_placed(sql), parameters or None)
        return self._last.fetchall() if _gives_rows(sql) else ()

    def insert_id(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return int(self.execute(sql + " RETURNING id", parameters)[0][0])

    @property
    def changed(self) -> int:
        if self._pipeline is not None:
            self._pipeline.sync()
        return max(self._last.rowcount, 0) if self._last else 0


class PostgresDatabase:
    """A small pool of connections. One that broke is replaced, once, without the caller noticing."""

    dialect = "postgres"

    def __init__(self, url: str) -> None:
        self.url = redacted(url)
        self._target, most = _target(url)
        self._room = threading.BoundedSemaphore(most)
        self._idle: list[Connection] = []
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[PostgresTransaction]:
        with self._room, _translated(self.url):
            connection = self._begin(_WRITE if write else _READ)
            try:
                with connection.pipeline() if write else nullcontext() as pipeline:
                    yield PostgresTransaction(connection, pipeline)
                    connection.execute("COMMIT")
            except BaseException:
                _abandon(connection)
                raise
            finally:
                self._give_back(connection)

    def _begin(self, statement: LiteralString) -> Connection:
        while True:
            with self._guard:
                if self._closed:
                    raise RegistryUnavailable("The database was closed.", database=self.url)
                pooled = self._idle.pop() if self._idle else None
            connection = pooled or psycopg.connect(self._target, autocommit=True)
            try:
                connection.execute(statement)
                return connection
            except psycopg.OperationalError:
                connection.close()
                # The server may have been restarted since this one was last used.
                if pooled is None:
                    raise

    def _give_back(self, connection: Connection) -> None:
        with self._guard:
            if self._closed or connection.closed or connection.broken:
                connection.close()
            else:
                self._idle.append(connection)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def _abandon(connection: Connection) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


@lru_cache(maxsize=1024)
def _gives_rows(sql: str) -> bool:
    return sql.lstrip().startswith(("SELECT", "WITH", "VALUES")) or " RETURNING " in sql


@lru_cache(maxsize=1024)
def _placed(sql: str) -> str:
    """psycopg's placeholders for the port's."""
    return sql.replace("%", "%%").replace("?", "%s")


def _target(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    try:
        most = int(options.pop("pool", "10"))
        options.setdefault("connect_timeout", "5")
        target = urlunsplit(parts._replace(query=urlencode(options)))
        conninfo.conninfo_to_dict(target)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise ConfigurationError(
            f"The database's URL cannot be used{_reason(error, url)}.",
            next="Quote what is special in user and password, as %25 for %.",
            url=redacted(url),
        ) from None
    return target, max(1, most)


def _reason(error: Exception, url: str) -> str:
    """What was wrong with a URL, unless that would quote from its credentials."""
    credentials = url.rpartition("@")[0]
    quoted = re.findall(r"[\"']([^\"']+)[\"']", str(error))
    return "" if any(each in credentials for each in quoted) else f": {str(error).strip()}"


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """psycopg's errors as the port's."""
    try:
        yield
    except errors.UniqueViolation as error:
        raise UniqueViolation(str(error)) from error
    except _CONFLICTS as error:
        raise TransactionConflict(str(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise RegistryUnavailable(
            f"The database cannot be used: {str(error).strip()}",
            next="Is the server running, and are address, user and password right?",
            database=url,
        ) from error
