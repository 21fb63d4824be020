"""A time limit for work that is nearly always quick: one timer for all of it, not one for each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Patience:
    """Ends what takes longer than ``seconds``, at the latest a quarter of that later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in this task. Raises ``TimeoutError``."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._began[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds / 4, self._look, loop)
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._overdue and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._began[task]
            self._overdue.discard(task)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, began in self._began.items():
            if now - began >= self._seconds and task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        self._timer = loop.call_later(self._seconds / 4, self._look, loop) if self._began else None
