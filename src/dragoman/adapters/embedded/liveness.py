"""Who is alive: each member holds a file lock, which the system gives up when its process dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from dragoman.adapters.embedded.errors import disk_error, disk_errors


class Pulse:
    """Held by a member from before it joins until after it has left."""

    def __init__(self, root: Path, member: str) -> None:
        folder = root / "members"
        self._root, self._member = root, member
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
            self._file: int | None = os.open(folder / member, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def stop(self) -> None:
        if self._file is not None:
            bury(self._root, self._member)
            os.close(self._file)
            self._file = None


def is_dead(root: Path, member: str) -> bool:
    """The process of this member is gone; ``False`` also for one that hangs."""
    path = root / "members" / member
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise disk_error(error, path) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def bury(root: Path, member: str) -> None:
    """A file that stays says nothing: without its lock the member counts as gone."""
    with contextlib.suppress(OSError):
        (root / "members" / member).unlink(missing_ok=True)
