"""How a producer's reports reach the event loop.

A thread waits for them. While many are under way the loop takes them itself: the thread would have to wait
for the interpreter with every single one, and the loop for the thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("dragoman.kafka")

MANY = 100
"""So many messages at once are worth the loop's attention."""
_PAUSE = 0.001
_STALLED = 50
"""After so many looks in vain the thread waits again."""
_TICK = 0.1


class Reporting:
    """``poll`` waits so many seconds for reports, and gives how many it has served."""

    def __init__(self, poll: Callable[[float], int]) -> None:
        self._poll = poll
        self._batches = 0
        self._in_vain = 0
        self._looking = False
        self._stopping = False
        self._thread_serves = threading.Event()
        self._thread_serves.set()
        self._thread = threading.Thread(target=self._wait, name="dragoman-kafka-reports", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        while not self._stopping:
            self._thread_serves.wait()
            try:
                self._poll(_TICK)
            except Exception:
                # Others wait for reports that are still to come.
                log.exception("A report of the producer could not be taken.")
                time.sleep(_TICK)

    async def of(self, done: asyncio.Future[None], size: int) -> None:
        """Wait until the reports of so many messages have come, which ``done`` tells."""
        if size < MANY:
            await done
            return
        self._batches += 1
        self._in_vain = 0
        try:
            if not self._looking:
                self._looking = True
                self._thread_serves.clear()
                self._look()
            await done
        finally:
            self._batches -= 1

    def _look(self) -> None:
        served = 0
        try:
            served = self._poll(0)
        finally:
            # Whatever poll raises: somebody has to look again.
            self._in_vain = 0 if served else self._in_vain + 1
            self._looking = self._batches > 0 and self._in_vain < _STALLED
            if self._looking:
                asyncio.get_running_loop().call_later(_PAUSE, self._look)
            else:
                self._thread_serves.set()

    def close(self) -> None:
        self._stopping = True
        self._thread_serves.set()
        self._thread.join()
