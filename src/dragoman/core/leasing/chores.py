"""Work in the background that nobody waits for: members of groups do the same when it is due."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from dragoman.core.ending import end

log = logging.getLogger("dragoman.leasing")


class Chores:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def do_at(self, due: float, work: Callable[[], Awaitable[object]]) -> None:
        """``due`` is in seconds since the epoch."""

        async def wait_and_work() -> None:
            await asyncio.sleep(max(0.0, due - time.time()))
            await work()

        self.do(wait_and_work())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("Work in the background failed: %s", error)

    async def stop(self) -> None:
        await end(*self._tasks)
