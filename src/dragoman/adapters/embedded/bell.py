"""Waiting for other processes to publish: the kernel tells when a bounds file is written.

Where there is no inotify, or none left, waiting is a short sleep.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
from pathlib import Path

IN_MODIFY = 0x2
PAUSE = 0.005


class Bell:
    """Rings for all that wait in one event loop, whichever of the files was written."""

    def __init__(self) -> None:
        self._file = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._libc: ctypes.CDLL | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None)

    def listen(self, path: Path) -> None:
        """Ring when this file is written. Doing it again changes nothing."""
        if self._libc is None:
            return
        if self._file < 0:
            self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._file < 0:  # too many are in use
                self._libc = None
                return
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._file, self._ring)
        if self._libc.inotify_add_watch(self._file, os.fsencode(path), IN_MODIFY) < 0:
            self.close()
            self._libc = None

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 1 << 16)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until it rings, at most this long; it may also end for no reason."""
        if self._file < 0:
            await asyncio.sleep(min(seconds, PAUSE))
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(seconds, _finish, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            timer.cancel()

    def close(self) -> None:
        if self._file >= 0:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
