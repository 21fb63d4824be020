"""Debian's libfaketime: a clock of their own for programs that are started with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.services.server import ServiceUnavailable, install


def library() -> Path:
    """The library for programs with threads, after installing it if need be."""
    found = _find()
    if found is None:
        install("faketime")
        found = _find()
    if found is None:
        raise ServiceUnavailable("libfaketime is missing. Debian: apt-get install faketime")
    return found


def _find() -> Path | None:
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class SteppedClock:
    """The wall clock of processes that are started with ``environment``. The monotonic clock stays true."""

    def __init__(self, file: Path) -> None:
        self._file = file
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
            "LD_PRELOAD": str(library()),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
        }
