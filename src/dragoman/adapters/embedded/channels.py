"""Channels and their folders: ``channels/<id>/bounds`` and ``channels/<id>/<partition>/``."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman.adapters.embedded.appender import Appender
from dragoman.adapters.embedded.bounds import MAX_PARTITIONS, Bounds
from dragoman.adapters.embedded.database import Row
from dragoman.adapters.embedded.errors import DiskFull, disk_errors
from dragoman.adapters.embedded.options import Options
from dragoman.adapters.embedded.reserve import Reserve
from dragoman.adapters.embedded.segment import segment_bases
from dragoman.core.channel import Channel
from dragoman.core.disk import OPERATING_SYSTEM, Disk, remove, sync_names
from dragoman.core.disk import make_folders as make_path
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, ConfigurationError
from dragoman.core.message import Message
from dragoman.core.partitioning import Partitioner

log = logging.getLogger("dragoman.embedded")

COLUMNS = "id, name, partitions, retention, settings"


def channel_of(row: Row) -> Channel:
    return Channel(row[1], row[2], row[3], json.loads(row[4]))


def not_found(name: str) -> ChannelNotFound:
    return ChannelNotFound(f"There is no channel {name!r}.", next="Create it first.", channel=name)


class FilesMissing(ChannelNotFound):
    """The database knows a channel whose files are not there."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(
            f"The channel {name!r} has no files any more.",
            next="If it has just been deleted, create it again. Otherwise restore its folder from a backup,"
            f" or give it up: dragoman channel delete {name}",
            channel=name,
            path=path,
        )


def open_bounds(folder: Path, name: str, disk: Disk = OPERATING_SYSTEM) -> Bounds:
    path = folder / "bounds"
    with disk_errors(folder):
        try:
            return Bounds(path, disk=disk)
        except FileNotFoundError:
            raise FilesMissing(name, path) from None


class ChannelFiles:
    """One channel's folder, open in this process."""

    def __init__(
        self,
        root: Path,
        id: int,
        name: str,
        options: Options,
        reserve: Reserve | None = None,
        known: Mapping[int, int] | None = None,
        disk: Disk = OPERATING_SYSTEM,
    ) -> None:
        """``known``: for each partition, the offset up to which there were messages, as groups remember."""
        self._known = known or {}
        self.id = id
        self.name = name
        self.folder = channel_folder(root, id)
        self.trim_at = 0.0
        self._options = options
        self._reserve = reserve
        self.disk = disk
        self._appenders: dict[int, Appender] = {}
        self._partitioner = Partitioner(name)
        self.bounds = open_bounds(self.folder, name, disk)

    def partition_folder(self, partition: int) -> Path:
        return self.folder / str(partition)

    def appender(self, partition: int) -> Appender:
        found = self._appenders.get(partition)
        if found is None:
            options, folder = self._options, self.partition_folder(partition)
            with disk_errors(self.folder):
                try:
                    found = Appender(
                        folder,
                        self.bounds,
                        partition,
                        segment_bytes=options.segment_bytes,
                        fsync=options.fsync,
                        reserve=self._reserve,
                        known=self._known.get(partition, 0),
                        disk=self.disk,
                    )
                except FileNotFoundError:
                    raise FilesMissing(self.name, folder) from None
            self._appenders[partition] = found
        return found

    def choose(self, message: Message, partitions: int) -> int:
        return self._partitioner.choose(message, partitions)

    def recover(self) -> None:
        """A full disk does not keep readers out: then the next append recovers the rest."""
        for partition in range(self.bounds.partitions):
            try:
                self.appender(partition).recover()
            except DiskFull as error:
                log.warning("A partition cannot be recovered yet: %s", error)

    def drop_before(self, timestamp: int) -> None:
        for partition in range(self.bounds.partitions):
            self.appender(partition).drop_before(timestamp)

    def sync(self) -> None:
        """Raises ``BrokerUnavailable`` for a partition that cannot be synced, after the others are."""
        failed = None
        for appender in list(self._appenders.values()):
            try:
                appender.sync()
            except BrokerUnavailable as error:
                failed = error
        if failed is not None:
            raise failed
        self._sync_bounds()

    def _sync_bounds(self) -> None:
        with disk_errors(self.folder):
            try:
                self.bounds.sync()
            except OSError:
                # The system may go back to what the disk has. The log itself knows where it ends.
                for appender in list(self._appenders.values()):
                    with contextlib.suppress(BrokerUnavailable):
                        appender.rewrite_bounds()
                raise

    def settle(self) -> None:
        for appender in list(self._appenders.values()):
            # Otherwise some offsets are left out when the machine is started again.
            with contextlib.suppress(BrokerUnavailable, ChannelNotFound):
                appender.settle()

    def close(self) -> None:
        for appender in self._appenders.values():
            appender.close()
        self.bounds.close()


def channel_folder(root: Path, id: int) -> Path:
    return root / "channels" / str(id)


def find_channel(connection: sqlite3.Connection, name: str) -> Row:
    row: Row | None = connection.execute(f"SELECT {COLUMNS} FROM channel WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is None:
        raise not_found(name)
    return row


def create_channel(root: Path, channel: Channel, *, sync: bool) -> Callable[[sqlite3.Connection], bool]:
    _check_partitions(channel)

    def work(connection: sqlite3.Connection) -> bool:
        made = connection.execute(
            "INSERT INTO channel (name, partitions, retention, settings) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO NOTHING RETURNING id",
            (channel.name, channel.partitions, channel.retention, json.dumps(dict(channel.settings))),
        ).fetchone()
        if made is None:
            return False
        make_folders(channel_folder(root, made[0]), channel.partitions, sync=sync)
        return True

    return work


def alter_channel(channel: Channel) -> Callable[[sqlite3.Connection], None]:
    """Groups get their place in new partitions first. The partitions are made when the channel is opened."""
    _check_partitions(channel)

    def work(connection: sqlite3.Connection) -> None:
        id, _, partitions, _, _ = find_channel(connection, channel.name)
        if channel.partitions < partitions:
            raise ConfigurationError(
                f"{partitions} partitions cannot become {channel.partitions}.",
                next="Partitions may grow, never shrink.",
                channel=channel.name,
            )
        connection.execute(
            "UPDATE channel SET partitions = ?, retention = ?, settings = ? WHERE id = ?",
            (channel.partitions, channel.retention, json.dumps(dict(channel.settings)), id),
        )
        for number in range(partitions, channel.partitions):
            connection.execute(
                "INSERT INTO share SELECT DISTINCT team, channel, ?, 0, 0, '[]', NULL, 0 FROM share"
                " WHERE channel = ?",
                (number, id),
            )
        connection.execute(
            "UPDATE team SET version = version + 1 WHERE name IN (SELECT team FROM share WHERE channel = ?)",
            (id,),
        )

    return work


def delete_channel(
    root: Path, name: str, disk: Disk = OPERATING_SYSTEM
) -> Callable[[sqlite3.Connection], tuple[int, int]]:
    """Forget the channel and what groups know of it; its id and partitions, whose files are to be removed.

    Its bounds go in the same transaction: processes that have it open see by them that it is deleted. If they
    cannot be removed, the channel stays.
    """

    def work(connection: sqlite3.Connection) -> tuple[int, int]:
        id, _, partitions, _, _ = find_channel(connection, name)
        connection.execute(
            "UPDATE team SET version = version + 1 WHERE name IN (SELECT team FROM share WHERE channel = ?)",
            (id,),
        )
        connection.execute("DELETE FROM share WHERE channel = ?", (id,))
        connection.execute("DELETE FROM aside WHERE channel = ?", (id,))
        connection.execute("DELETE FROM delayed WHERE channel = ?", (id,))
        connection.execute("DELETE FROM channel WHERE id = ?", (id,))
        folder = channel_folder(root, id)
        with disk_errors(folder):
            remove(disk, folder / "bounds")
        return id, partitions

    return work


def remove_files(files: ChannelFiles, partitions: int) -> None:
    """Under the append locks, so that nobody writes into a file that has no name any more.

    Nothing uses files that stay: a channel's id is not given out twice.
    """
    for partition in range(partitions):
        with contextlib.suppress(BrokerUnavailable, ChannelNotFound):
            files.appender(partition).remove()
    shutil.rmtree(files.folder, ignore_errors=True)


def remove_folder(root: Path, id: int) -> None:
    """What is left of a channel whose files cannot be opened."""
    shutil.rmtree(channel_folder(root, id), ignore_errors=True)


def make_folders(folder: Path, partitions: int, *, sync: bool, disk: Disk = OPERATING_SYSTEM) -> None:
    """Inside a write transaction: two processes must not begin the same partition.

    With ``sync`` the files and their names are on the disk before the database tells of them.
    """
    with disk_errors(folder):
        for number in range(partitions):
            make_path(disk, folder / str(number))
        bounds = Bounds(folder / "bounds", create=True, disk=disk)
        try:
            filled = {number for number in range(partitions) if segment_bases(folder / str(number), disk)}
            bounds.grow(partitions, filled)
            if sync:
                bounds.sync()
        finally:
            bounds.close()
        if sync:
            for each in (folder, folder.parent, folder.parent.parent):
                sync_names(disk, each)


def _check_partitions(channel: Channel) -> None:
    if channel.partitions > MAX_PARTITIONS:
        raise ConfigurationError(
            f"{channel.partitions} partitions are too many.",
            next=f"Use at most {MAX_PARTITIONS}.",
            channel=channel.name,
        )
