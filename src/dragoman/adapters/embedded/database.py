"""The SQLite file beside the segments: channels, groups, members, and messages that are not due yet.

It is written from the event loop, without a thread: a transaction takes some ten microseconds, and one that
finds the file locked by another process gives way to the other tasks before it tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.adapters.embedded.errors import DiskFull, disk_error, is_full
from dragoman.adapters.embedded.reserve import Reserve, give_up_reserve
from dragoman.core.backoff import contention
from dragoman.core.errors import BrokerUnavailable, ConfigurationError

VERSION = 4
PATIENCE = 30.0
CONTENTION = contention(0.0015, 0.0015)
CHECKPOINT_EVERY = 500
"""So many transactions."""
SYNCHRONOUS = {"always": "FULL", "batch": "NORMAL", "never": "OFF"}

_TABLES = """
CREATE TABLE channel (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL,
    retention REAL, settings TEXT NOT NULL);
CREATE TABLE team (name TEXT PRIMARY KEY, version INTEGER NOT NULL, durable INTEGER NOT NULL DEFAULT 1)
    WITHOUT ROWID;
CREATE TABLE member (
    id TEXT PRIMARY KEY, team TEXT NOT NULL, channels TEXT NOT NULL, lease_end REAL NOT NULL,
    sharing TEXT NOT NULL DEFAULT 'shared', rank INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX member_team ON member (team);
CREATE TABLE share (
    team TEXT NOT NULL, channel INTEGER NOT NULL, partition INTEGER NOT NULL, position INTEGER NOT NULL,
    cursor INTEGER NOT NULL, tried TEXT NOT NULL, owner TEXT, epoch INTEGER NOT NULL,
    PRIMARY KEY (team, channel, partition)) WITHOUT ROWID;
CREATE INDEX share_channel ON share (channel);
CREATE TABLE aside (
    team TEXT NOT NULL, channel INTEGER NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    due REAL NOT NULL, tried INTEGER NOT NULL,
    PRIMARY KEY (team, channel, partition, "offset")) WITHOUT ROWID;
CREATE TABLE delayed (
    id INTEGER PRIMARY KEY AUTOINCREMENT, due REAL NOT NULL, channel INTEGER NOT NULL, partition INTEGER,
    payload BLOB, key BLOB, headers BLOB NOT NULL, timestamp INTEGER);
CREATE INDEX delayed_due ON delayed (due, id);
"""

_UPGRADES = {
    1: """
ALTER TABLE team ADD COLUMN durable INTEGER NOT NULL DEFAULT 1;
ALTER TABLE member ADD COLUMN sharing TEXT NOT NULL DEFAULT 'shared';
ALTER TABLE member ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
""",
    2: """
ALTER TABLE member RENAME COLUMN expires TO lease;
UPDATE member SET lease = 0;
""",
    3: "ALTER TABLE member RENAME COLUMN lease TO lease_end;",
}
"""From an older version of the tables to the next.

Up to version 2 leases are times of the wall clock, later they are times of the monotonic clock. So all leases
that are found at the upgrade have ended. A process of an older version that still runs does not find their
column any more: it gets an error, and does not remove the newer members, whose leases it would misread.
Up to version 3 the log has no gaps. The column has another name again, so that a receiver that would misread
them gets an error.
"""

T = TypeVar("T")
Row = tuple[Any, ...]


def open_database(root: Path, fsync: str) -> sqlite3.Connection:
    """Open the file, or make it. Processes that do so at the same moment wait for each other."""
    try:
        return _open(root, fsync)
    except BrokerUnavailable:
        # Opening takes some room, also for those who only read. If the disk is full, there is a reserve.
        if not give_up_reserve(root):
            raise
        return _open(root, fsync)


def _open(root: Path, fsync: str) -> sqlite3.Connection:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "open.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection = sqlite3.connect(
                root / "broker.db", timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                _prepare(connection, root, fsync)
            except BaseException:
                connection.close()
                raise
            return connection
    except sqlite3.Error as error:
        raise _unavailable(error) from error
    except OSError as error:
        if is_full(error):
            raise disk_error(error, root) from error
        raise BrokerUnavailable(
            f"The folder cannot be used: {error.strerror}.",
            next="Choose one that this user may write to.",
            folder=root,
        ) from error


def _prepare(connection: sqlite3.Connection, root: Path, fsync: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[fsync]}")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT")
    elif found in _UPGRADES:
        steps = "".join(_UPGRADES[version] for version in range(found, VERSION))
        connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION}; COMMIT")
    elif found != VERSION:
        raise ConfigurationError(
            f"The broker's files are of version {found}; this program knows {VERSION}.",
            next="Use the version of Dragoman that wrote them, or another folder.",
            folder=root,
        )


class Database:
    """Used from one event loop. Work inside a transaction must not wait for anything."""

    def __init__(self, connection: sqlite3.Connection, reserve: Reserve | None = None) -> None:
        self._connection = connection
        self._reserve = reserve
        self._path = connection.execute("PRAGMA database_list").fetchone()[2]
        self._synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        self._writes = 0
        self._checkpoint: asyncio.Task[None] | None = None
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute(f"PRAGMA wal_autocheckpoint = {20 * CHECKPOINT_EVERY}")

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the work in a transaction of its own. It runs once; an error in it undoes all."""
        await self._patiently("BEGIN IMMEDIATE")
        try:
            result = work(self._connection)
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._told(error) from error
            raise
        self._writes += 1
        if self._writes >= CHECKPOINT_EVERY and (self._checkpoint is None or self._checkpoint.done()):
            self._writes = 0
            self._checkpoint = asyncio.create_task(
                asyncio.to_thread(_checkpoint, self._path, self._synchronous)
            )
        return result

    async def read(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return await self._patiently(sql, parameters)

    async def _patiently(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        deadline = 0.0
        while True:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                if not _busy(error):
                    raise self._told(error) from error
                deadline = deadline or time.monotonic() + PATIENCE
                if time.monotonic() > deadline:
                    raise _unavailable(error) from error
            await asyncio.sleep(CONTENTION.wait_s(1))

    def _told(self, error: sqlite3.Error) -> BrokerUnavailable:
        """If the disk is full, the reserve is given up: the next try finds room."""
        found = _unavailable(error)
        if isinstance(found, DiskFull) and self._reserve is not None:
            self._reserve.give_up()
        return found

    async def close(self) -> None:
        if self._checkpoint is not None:
            await asyncio.gather(self._checkpoint, return_exceptions=True)
        self._connection.close()


def _checkpoint(path: str, synchronous: int) -> None:
    """Move what is in the write-ahead log into the file. It waits for the disk: not in the event loop."""
    # What one cannot move, the next one does.
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection,
    ):
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _unavailable(error: sqlite3.Error) -> BrokerUnavailable:
    full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return (DiskFull if full else BrokerUnavailable)(
        f"The broker's database cannot be used: {error}.",
        next="See that the disk has room, and that no program holds broker.db locked.",
    )
