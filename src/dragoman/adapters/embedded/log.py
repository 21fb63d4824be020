"""The history of the embedded broker's channels, as columns, straight from the segment files."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.channels import channel_folder, find_channel, not_found, open_bounds
from dragoman.adapters.embedded.columns import slice_of
from dragoman.adapters.embedded.database import open_database
from dragoman.adapters.embedded.reader import PartitionReader
from dragoman.core.errors import BrokerError, ChannelNotFound, DamagedLog
from dragoman.core.log import LogSlice

SLICE_MESSAGES = 10_000
SLICE_BYTES = 16 << 20


class EmbeddedLogReader:
    """Implements ``dragoman.core.broker.LogReader``. Picklable: only the folder travels."""

    def __init__(self, root: Path, fsync: str) -> None:
        self._root = root
        self._fsync = fsync
        self._connection: sqlite3.Connection | None = None
        self._folders: dict[str, tuple[Path, Bounds]] = {}
        self._readers: dict[tuple[str, int], PartitionReader] = {}

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        numbers = range(self._channel(channel)[1].partitions)
        return {number: self._bounds(channel, number) for number in numbers}

    def channels(self) -> Sequence[str]:
        if not self._exists:
            return []
        rows = self._database().execute("SELECT name FROM channel ORDER BY name")
        return [name for (name,) in rows]

    @property
    def _exists(self) -> bool:
        """Reading makes no folder."""
        return (self._root / "broker.db").exists()

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        start, end = self._bounds(channel, partition)
        found = self._reader(channel, partition).offset_at(timestamp)
        return end if found is None else min(max(found, start), end)

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        first, last = self._bounds(channel, partition)
        start, end = max(start, first), min(end, last)
        if end <= start:
            return slice_of((), start, start)
        try:
            blocks = self._reader(channel, partition).read(start, end, SLICE_MESSAGES, SLICE_BYTES)
        except DamagedLog as error:
            error.where = {**error.where, "channel": channel, "partition": partition}
            raise
        if not blocks:  # retention was faster
            start = end = min(max(start, self._bounds(channel, partition)[0]), end)
        return slice_of(blocks, start, end)

    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_database(self._root, self._fsync)
        return self._connection

    def _channel(self, name: str) -> tuple[Path, Bounds]:
        found = self._folders.get(name)
        if found is not None and found[1].partitions:
            return found
        self._forget(name)
        if not self._exists:
            raise not_found(name)
        folder = channel_folder(self._root, find_channel(self._database(), name)[0])
        self._folders[name] = folder, open_bounds(folder, name)
        return self._folders[name]

    def _bounds(self, channel: str, partition: int) -> tuple[int, int]:
        bounds = self._channel(channel)[1]
        if not 0 <= partition < bounds.partitions:
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel)
        found = bounds.record(partition)
        if found is None:
            # What is in the log would seem not to be there.
            raise BrokerError(
                "Where this partition begins and ends cannot be read.",
                code="broker.damaged-bounds",
                next=f"Restore it from the log: dragoman channel lag {channel}",
                channel=channel,
                partition=partition,
            )
        return found

    def _reader(self, channel: str, partition: int) -> PartitionReader:
        key = channel, partition
        if key not in self._readers:
            folder, bounds = self._channel(channel)
            self._readers[key] = PartitionReader(folder / str(partition), bounds, partition)
        return self._readers[key]

    def _forget(self, channel: str) -> None:
        if channel in self._folders:
            self._folders.pop(channel)[1].close()
        for key in [key for key in self._readers if key[0] == channel]:
            self._readers.pop(key).close()

    def close(self) -> None:
        for channel in list(self._folders):
            self._forget(channel)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __reduce__(self) -> tuple[object, ...]:
        return EmbeddedLogReader, (self._root, self._fsync)
