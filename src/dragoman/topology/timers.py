"""Things to do later, by the machine's clock or by one that a test moves by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.core.clock import Clock


class Timer:
    """One appointment."""

    __slots__ = ("_callback", "due", "handle")

    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self._callback: Callable[[], None] | None = callback
        self.handle: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> bool:
        return self._callback is not None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        self._callback = None
        if self.handle is not None:
            self.handle.cancel()


class Timers:
    """Used from one event loop."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._waiting: list[Timer] = []
        if clock.manual:
            clock.on_advance(self._advanced)

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.clock.now() + seconds, callback)
        if self.clock.manual:
            self._waiting.append(timer)
        else:
            timer.handle = asyncio.get_running_loop().call_later(seconds, timer.fire)
        return timer

    def _advanced(self) -> None:
        now = self.clock.now()
        due = [timer for timer in self._waiting if timer.due <= now]
        self._waiting = [timer for timer in self._waiting if timer.due > now and timer.pending]
        for timer in due:
            timer.fire()
