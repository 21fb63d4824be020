"""Which offsets a partition may give out: none is given out twice, whatever a power failure takes.

Positions of groups, checkpoints of Spark and tables of other programs remember offsets. They may be on the
disk when the messages are not. If a shorter log gave out the same offsets again, they would pass over the new
messages. So offsets are reserved on the disk before they are given out, many at a time. After the machine has
started again, the log goes on behind all that were reserved before.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from dragoman.core.disk import OPERATING_SYSTEM, Disk, sync_names

AT_ONCE = 1 << 18
"""So many offsets are reserved by one sync. After a power failure, so many are left out at most."""
_RECORD = struct.Struct("<qqq40sI")
_PLACE = 512
"""The two records lie in sectors of their own: a write that is cut short leaves the other one."""


class Reserved(NamedTuple):
    number: int
    """The record with the highest one counts."""
    first: int
    until: int
    """Offsets in ``[first, until)`` may be given out, as long as the machine runs."""
    boot: bytes


NOTHING = Reserved(0, 0, 0, b"")


class Offsets:
    """The file ``offsets`` of a partition. Only the holder of the append lock uses it."""

    def __init__(self, folder: Path, disk: Disk = OPERATING_SYSTEM) -> None:
        self._disk = disk
        self._folder = folder
        self._file = self._disk.open(folder / "offsets", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._read: tuple[bytes, Reserved] = b"", NOTHING
        self._synced: Reserved | None = None
        """What this process has synced. Another one may have died between its write and its sync."""

    def first(self) -> int:
        """The lowest offset that may be given out now."""
        found = self._newest()
        return found.first if found.boot in (b"", self._disk.boot_id()) else found.until

    def hold(self, until: int) -> bool:
        """Whether the offsets before this one are reserved, on the disk."""
        found = self._newest()
        return found == self._synced and found.boot == self._disk.boot_id() and until <= found.until

    def reserve(self, first: int, until: int) -> None:
        """Reserve these, and many more, for as long as the machine runs."""
        self._write(first, until + AT_ONCE, self._disk.boot_id())

    def give_back(self, first: int) -> None:
        """All messages before this offset are on the disk: nothing is left out when the machine restarts."""
        if self.first() <= first:
            self._write(first, first, self._disk.boot_id())

    def distrust(self) -> None:
        """Messages that were written may be gone: go on behind all that is reserved."""
        found = self._newest()
        if found.boot == self._disk.boot_id():
            self._write(found.until, found.until, found.boot)

    @property
    def used(self) -> bool:
        """This process has reserved some."""
        return self._synced is not None

    def _newest(self) -> Reserved:
        data = self._disk.pread(self._file, 2 * _PLACE, 0)
        if data != self._read[0]:
            self._read = data, max(_record(data, 0), _record(data, _PLACE))
        return self._read[1]

    def _write(self, first: int, until: int, boot: bytes) -> None:
        found = self._newest()
        if found not in (NOTHING, self._synced):
            # A process may have died before its sync, or its sync has failed: then the next one stores only
            # what is written again. The record before this one is overwritten now.
            self._store(found)
        self._store(Reserved(found.number + 1, first, until, boot))

    def _store(self, record: Reserved) -> None:
        data = _RECORD.pack(*record, 0)[:-4]
        data += crc32(data).to_bytes(4, "little")
        place = record.number % 2 * _PLACE
        written = self._disk.pwrite(self._file, data, place)
        while written < len(data):
            written += self._disk.pwrite(self._file, data[written:], place + written)
        self._sync()

    def _sync(self) -> None:
        found = self._newest()
        if found not in (NOTHING, self._synced):
            self._disk.fsync(self._file)
            if self._synced is None:
                sync_names(self._disk, self._folder)
            self._synced = found

    def close(self) -> None:
        self._disk.close(self._file)


def _record(data: bytes, place: int) -> Reserved:
    part = data[place : place + _RECORD.size]
    if len(part) < _RECORD.size or crc32(part[:-4]) != int.from_bytes(part[-4:], "little"):
        return NOTHING
    number, first, until, boot, _ = _RECORD.unpack(part)
    return Reserved(number, first, until, boot.rstrip(b"\0"))
