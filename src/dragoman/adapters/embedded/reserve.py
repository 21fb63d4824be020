"""Room on the disk that is kept for groups, so that a full disk can still be read.

A group writes down how far it is, in some kilobytes that are used again and again. If the disk is full, the
reserve is given up for that. While it is given up, publishing is refused, in all processes: otherwise
publishers would fill the room that readers need. The next publish takes the reserve again if there is room.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from dragoman.core.disk import OPERATING_SYSTEM, Disk

SIZE = 1 << 20


class Reserve:
    def __init__(self, root: Path, disk: Disk = OPERATING_SYSTEM) -> None:
        self._disk = disk
        self._file = disk.open(_path(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @property
    def held(self) -> bool:
        """Whether there is room for publishers. Asked at each publish: it is one cheap call."""
        return self._disk.lseek(self._file, 0, os.SEEK_END) >= SIZE

    def take(self) -> None:
        """Set the room aside, if it is not yet. Raises ``OSError`` if there is not enough."""
        if self.held:
            return
        try:
            self._disk.allocate(self._file, SIZE)
        except OSError:
            self.give_up()
            raise
        if not self.held:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def give_up(self) -> None:
        """Called when the disk is full. Some file systems need room for it: then there is none to give."""
        with contextlib.suppress(OSError):
            self._disk.ftruncate(self._file, 0)

    def close(self) -> None:
        self._disk.close(self._file)


def give_up_reserve(root: Path, disk: Disk = OPERATING_SYSTEM) -> bool:
    """For a process that cannot even open the database; whether there was something to give up."""
    try:
        if not disk.stat(_path(root)).st_size:
            return False
        disk.truncate(_path(root), 0)
    except OSError:
        return False
    return True


def _path(root: Path) -> Path:
    return root / "reserve"
