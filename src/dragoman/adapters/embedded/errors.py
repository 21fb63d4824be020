"""Errors of the disk, and of what is on it, as errors of Dragoman."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.core.errors import BrokerUnavailable

log = logging.getLogger("dragoman.embedded")

_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class DiskFull(BrokerUnavailable):
    """There is no room. What publishes is refused, and what reads goes on."""


_logged: set[tuple[Path, int, int]] = set()


def log_damage(folder: Path, first: int, until: int) -> None:
    """Write one line for each damaged range that this process meets."""
    place = folder, first, until
    if place in _logged:
        return
    _logged.add(place)
    log.error(
        "The messages %d to %d are damaged in the log, or missing. The files are left as they are.",
        first,
        until - 1,
        extra={"folder": str(folder), "error_code": "broker.damaged"},
    )


def forget_logged() -> None:
    """Log damage again that was logged before."""
    _logged.clear()


def log_gap(folder: Path, first: int, until: int) -> None:
    log.warning(
        "The machine was restarted, the log was damaged, or a sync failed. Messages from %d on may be lost."
        " The log goes on at %d, behind all offsets that may have been given out.",
        first,
        until,
        extra={"folder": str(folder), "error_code": "broker.gap"},
    )


def is_full(error: OSError) -> bool:
    """Whether the disk, or what this user may use of it, has no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def disk_error(error: OSError, path: Path) -> BrokerUnavailable:
    reason = error.strerror or str(error)
    if is_full(error):
        return DiskFull(
            f"The log cannot be written: {reason}.",
            next="Make room on the disk, or choose another folder.",
            folder=path,
        )
    if error.errno in _TOO_MANY:
        advice = "Raise the limit of open files, see ulimit -n, or open fewer channels."
    elif error.errno in _REFUSED:
        advice = "Let this user read and write the folder, or choose another one."
    else:
        advice = "Check the disk and the system's log, then open the broker again."
    return BrokerUnavailable(f"The log cannot be used: {reason}.", next=advice, folder=path)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn each ``OSError`` into an error of Dragoman that names the path."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def misnamed(path: Path, right: Path) -> BrokerUnavailable:
    return BrokerUnavailable(
        f"The file {path.name} of the log begins with the message {int(right.stem)}, so its name is wrong.",
        code="broker.misnamed",
        next=f"Name it {right.name} again, or restore the folder from a backup. Nothing in it was changed.",
        folder=path.parent,
    )


def sync_failed(folder: Path) -> BrokerUnavailable:
    return BrokerUnavailable(
        "The log could not be synced to the disk, so nothing more is written to it.",
        code="broker.sync-failed",
        next="Check the disk, then open the broker again: it verifies the log.",
        folder=folder,
    )
