"""The disk port: each call that durable parts make to the file system.

The names and the meaning are those of ``os``, so a reader who knows one knows the other. What writes to disk
takes a ``Disk`` and calls nothing else. In production it is the operating system. The simulator hands over a
disk that loses what was not synced, flips bits, refuses calls and crashes at any of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Protocol

Data = bytes | bytearray | memoryview


class FileState(Protocol):
    """What ``fstat`` and ``stat`` tell."""

    @property
    def st_ino(self) -> int: ...

    @property
    def st_size(self) -> int: ...

    @property
    def st_nlink(self) -> int: ...

    @property
    def st_mtime_ns(self) -> int: ...


class Disk(Protocol):
    """Every method may raise ``OSError``, as the call of the same name in ``os`` does.

    A file that is written is safe from a power failure after ``fsync`` of the file, and its name after
    ``fsync`` of the folder. A failed ``fsync`` is not made good by another one: what was written since the
    last good one may be gone, although the next call succeeds.
    """

    def open(self, path: Path, flags: int, mode: int, /) -> int: ...

    def close(self, file: int, /) -> None: ...

    def pread(self, file: int, size: int, place: int, /) -> bytes: ...

    def pwrite(self, file: int, data: Data, place: int, /) -> int: ...

    def write(self, file: int, data: Data, /) -> int: ...

    def lseek(self, file: int, place: int, whence: int, /) -> int: ...

    def fstat(self, file: int, /) -> FileState: ...

    def stat(self, path: Path, /) -> FileState: ...

    def ftruncate(self, file: int, size: int, /) -> None: ...

    def truncate(self, path: Path, size: int, /) -> None: ...

    def fsync(self, file: int, /) -> None: ...

    def flock(self, file: int, operation: int, /) -> None: ...

    def listdir(self, folder: Path, /) -> list[str]: ...

    def mkdir(self, folder: Path, /) -> None: ...

    def link(self, path: Path, other: Path, /) -> None: ...

    def replace(self, path: Path, other: Path, /) -> None: ...

    def unlink(self, path: Path, /) -> None: ...

    def allocate(self, file: int, size: int, /) -> None:
        """Set so many bytes aside, as ``posix_fallocate`` does."""

    def drop_cache(self, file: int, /) -> None:
        """Read the file from the disk again, not from memory. A hint, which may be ignored."""

    def boot_id(self) -> bytes:
        """Differs each time the machine starts, up to 40 bytes: what was not on the disk is gone then."""


class OperatingSystem:
    """The default disk. Its methods are the functions of ``os``, so the port costs one attribute."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    write = staticmethod(os.write)
    lseek = staticmethod(os.lseek)
    fstat = staticmethod(os.fstat)
    stat = staticmethod(os.stat)
    ftruncate = staticmethod(os.ftruncate)
    truncate = staticmethod(os.truncate)
    fsync = staticmethod(os.fsync)
    flock = staticmethod(fcntl.flock)
    listdir = staticmethod(os.listdir)
    mkdir = staticmethod(os.mkdir)
    link = staticmethod(os.link)
    replace = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)

    @staticmethod
    def allocate(file: int, size: int, /) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.pwrite(file, bytes(size), 0)

    @staticmethod
    def drop_cache(file: int, /) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    @staticmethod
    @cache
    def boot_id() -> bytes:
        try:
            found = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        except FileNotFoundError:  # macOS
            found = subprocess.check_output(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"])
        return found.strip()[:40]


OPERATING_SYSTEM: Disk = OperatingSystem()


def read_file(disk: Disk, path: Path) -> bytes:
    """The whole file. Raises ``FileNotFoundError``."""
    file = disk.open(path, os.O_RDONLY | os.O_CLOEXEC, 0)
    try:
        parts, place = [], 0
        while data := disk.pread(file, 1 << 20, place):
            parts.append(data)
            place += len(data)
        return b"".join(parts)
    finally:
        disk.close(file)


def write_file(disk: Disk, path: Path, data: Data, *, sync: bool = False) -> None:
    """Make the file, or replace what is in it. With ``sync`` it is on the disk then; its name may not be."""
    file = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        _write_all(disk, file, data)
        if sync:
            disk.fsync(file)
    finally:
        disk.close(file)


def append_line(disk: Disk, path: Path, line: bytes) -> None:
    """Add a line to a file, in one call if the system takes all of it.

    A crash may have cut the last line short. The new one begins a line of its own nevertheless.
    """
    file = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = disk.fstat(file).st_size
        is_cut = size > 0 and disk.pread(file, 1, size - 1) != b"\n"
        _write_all(disk, file, (b"\n" if is_cut else b"") + line + b"\n")
    finally:
        disk.close(file)


def _write_all(disk: Disk, file: int, data: Data) -> None:
    place = disk.write(file, data)
    while place < len(data):
        place += disk.write(file, data[place:])


def exists(disk: Disk, path: Path) -> bool:
    try:
        disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def remove(disk: Disk, path: Path) -> None:
    """Remove a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(path)


def make_folders(disk: Disk, folder: Path) -> None:
    """Make a folder, and those above it that are missing."""
    try:
        disk.mkdir(folder)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folders(disk, folder.parent)
        with contextlib.suppress(FileExistsError):
            disk.mkdir(folder)


def sync_names(disk: Disk, folder: Path) -> None:
    """Bring the names in a folder to the disk. A new file is safe once its name is."""
    names = disk.open(folder, os.O_RDONLY | os.O_CLOEXEC, 0)
    try:
        disk.fsync(names)
    finally:
        disk.close(names)
