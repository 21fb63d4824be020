"""Where each partition of a channel starts and ends: one small file, read at every poll.

Each number is followed by its complement. A reader that meets a half-written number sees that they differ
and looks again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Container
from pathlib import Path

from dragoman.adapters.embedded.errors import disk_error
from dragoman.core.disk import OPERATING_SYSTEM, Disk

_RECORD = struct.Struct("<qqqq")
_BLANK = _RECORD.pack(0, ~0, 0, ~0)
_UNKNOWN = bytes(_RECORD.size)
_TRIES = 1000
MAX_PARTITIONS = 10_000


class Bounds:
    """Only the holder of a partition's append lock writes its record.

    Once closed it has no partitions. Who still holds it never meets another file under the old number.
    """

    def __init__(self, path: Path, *, create: bool = False, disk: Disk = OPERATING_SYSTEM) -> None:
        self._path = path
        self._disk = disk
        self._is_synced = True
        self._file = disk.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    @property
    def partitions(self) -> int:
        """How many there are; 0 once the channel is deleted."""
        if self._file < 0:
            return 0
        state = self._disk.fstat(self._file)
        return state.st_size // _RECORD.size if state.st_nlink else 0

    def grow(self, partitions: int, filled: Container[int] = ()) -> None:
        """Add records up to this number of partitions.

        A partition that is ``filled`` had a record, which is lost. Its new record is a broken one until an
        ``Appender`` has looked into the log: everything there may have been confirmed.
        """
        self._is_synced = False
        for number in range(self.partitions, partitions):
            self._disk.pwrite(self._file, _UNKNOWN if number in filled else _BLANK, number * _RECORD.size)

    def all(self) -> list[tuple[int, int]]:
        """Start and end of each partition."""
        if self._file < 0:
            return []
        data = self._read(_RECORD.size * MAX_PARTITIONS, 0)
        return [
            (start, end) if start == ~start_check and end == ~end_check else self.one(number)
            for number, (start, start_check, end, end_check) in enumerate(
                _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])
            )
        ]

    def one(self, partition: int) -> tuple[int, int]:
        """Nothing at all for a record that stays broken, as after a power failure: see ``Appender``."""
        return self.record(partition) or (0, 0)

    def record(self, partition: int) -> tuple[int, int] | None:
        """Start and end, or ``None`` for a record that stays broken."""
        for _ in range(_TRIES):
            data = self._read(_RECORD.size, partition * _RECORD.size)
            if len(data) < _RECORD.size:
                break
            start, start_check, end, end_check = _RECORD.unpack(data)
            if start == ~start_check and end == ~end_check:
                return start, end
        return None

    def _read(self, size: int, place: int) -> bytes:
        try:
            return self._disk.pread(self._file, size, place)
        except OSError as error:
            raise disk_error(error, self._path) from error

    def sync(self) -> None:
        """Bring to the disk what this process has written.

        After a power failure the bounds tell a damaged last block from a write that was cut short. The older
        they are, the more messages at the end of the log may be taken for the latter.
        """
        if self._is_synced or self._file < 0:
            return
        self._is_synced = True
        try:
            self._disk.fsync(self._file)
        except BaseException:
            self._is_synced = False
            raise

    def write(self, partition: int, start: int, end: int) -> None:
        self._is_synced = False
        record, place = _RECORD.pack(start, ~start, end, ~end), partition * _RECORD.size
        written = self._disk.pwrite(self._file, record, place)
        while written < len(record):
            written += self._disk.pwrite(self._file, record[written:], place + written)

    def close(self) -> None:
        file, self._file = self._file, -1
        self._disk.close(file)
