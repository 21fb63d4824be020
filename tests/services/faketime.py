"""Debian's libfaketime: a clock of their own for programs that are started with it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.services.server import ServiceUnavailable, install

_WAITS = """
#include <errno.h>
#include <pthread.h>
#include <threads.h>

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    int error = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}
"""
"""libfaketime translates the waits of POSIX but not those of C11, which Kafka's driver uses. A wait until a
moment of the stepped clock would last until the true clock comes to that moment."""


class SteppedClock:
    """The wall clock of processes that are started with ``environment``. The monotonic clock stays true.

    Raises ``ServiceUnavailable`` if libfaketime or a C compiler is missing.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._libraries = _waits(file.with_suffix(".so")), library()
        self.step(0)

    def step(self, seconds: int) -> None:
        """Within a second the clock differs from the true time by so many seconds."""
        # At no moment the file is empty.
        partial = self._file.with_suffix(".new")
        partial.write_text(f"{seconds:+d}s\n")
        partial.rename(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": " ".join(map(str, self._libraries)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
        }


def library() -> Path:
    """libfaketime for programs with threads, after installing it if need be."""
    found = _find()
    if found is None:
        install("faketime")
        found = _find()
    if found is None:
        raise ServiceUnavailable("libfaketime is missing. Debian: apt-get install faketime")
    return found


def _find() -> Path | None:
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def _waits(made: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise ServiceUnavailable("A C compiler is missing. Debian: apt-get install gcc libc6-dev")
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", str(made), "-"]
    done = subprocess.run(command, input=_WAITS, capture_output=True, text=True)
    if done.returncode:
        raise ServiceUnavailable(f"The C compiler does not work: {done.stderr[-500:]}")
    return made
