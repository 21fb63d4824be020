"""Work for the one thread that may use a consumer, asked for by tasks of the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from dragoman.core.errors import BrokerUnavailable, DragomanError

R = TypeVar("R")

PATIENCE = 30.0
_BREATH = 0.02
"""An errand that is to be tried again gets its next chance after so long."""


class NotYet(Exception):
    """Raised by an errand that is to be tried again later; its cause is told when patience ends."""

    def __init__(self, cause: DragomanError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Errands:
    """``changed`` is notified when something is asked for."""

    def __init__(self, changed: threading.Condition) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Future[Any], float]] = deque()
        self._came = changed
        self._ended = False

    async def ask(self, work: Callable[[], R]) -> R:
        answer: Future[R] = Future()
        with self._came:
            if self._ended:
                raise _closed()
            self._waiting.append((work, answer, time.monotonic() + PATIENCE))
            self._came.notify()
        return await asyncio.wrap_future(answer)

    def run_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Do what is asked for until the condition holds; whether it came to hold in time."""
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._came:
                self._came.wait_for(lambda: self._waiting or condition(), min(left, _BREATH))
            self.run()
        return True

    def run(self) -> None:
        """Do what was asked for so far."""
        for _ in range(len(self._waiting)):
            work, answer, deadline = self._waiting.popleft()
            try:
                result = work()
            except NotYet as later:
                if time.monotonic() < deadline:
                    self._waiting.append((work, answer, deadline))
                else:
                    _settle(answer, error=later.cause)
            except Exception as error:
                _settle(answer, error=error)
            else:
                _settle(answer, result)

    def end(self) -> None:
        """Nothing more is done: whoever waits is told."""
        with self._came:
            self._ended = True
        while self._waiting:
            _settle(self._waiting.popleft()[1], error=_closed())


def _settle(answer: Future[Any], result: Any = None, error: Exception | None = None) -> None:
    # Whoever asked may have gone, and have cancelled it.
    if not answer.set_running_or_notify_cancel():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _closed() -> BrokerUnavailable:
    return BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
