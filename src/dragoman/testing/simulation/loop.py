"""An asyncio event loop with virtual time, in which a seed decides every order that may vary.

Time stands still while anything is ready, apart from the small cost that the seed gives to each step, and
jumps to the next timer when nothing is. A run with the same seed does the same steps.

Which orders may vary? asyncio promises that callbacks run in the order of ``call_soon``, and relies on it
itself: futures, timeouts and ``gather`` pass results on by plain callbacks. So nothing overtakes a plain
callback. What a program must not rely on is how many turns of the loop another task needs. So a step of a
task may be delayed behind anything that became ready after it, but not behind a later step of the same task.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import io
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from random import Random
from typing import Any, TypeVar

from dragoman.testing.simulation.scenario import Violation

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""The wall time at which each run begins."""
STEP_COSTS_S = (0.0, 0.0, 0.0, 0.00002, 0.0015)
"""What one step may cost, in virtual seconds."""
THREAD_COSTS_S = (0.0, 0.0005, 0.01, 0.2)
"""How long a function in a thread waits for its turn, and how long its result is under way."""
STEPS_WITHOUT_TIMER_MAX = 50_000
"""More steps between two timers are taken for an endless loop."""


class State(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    """As by SIGSTOP: timers expire meanwhile, and their callbacks run when it goes on."""
    DEAD = "dead"
    """As by SIGKILL: no callback ever runs again, ``finally`` blocks neither."""


@dataclass(eq=False)
class Process:
    """Tasks that stop, go on and die together, and share a wall clock."""

    name: str
    state: State = State.RUNNING
    clock_offset_s: float = 0.0
    """How far the wall clock of this process is off."""
    exited: BaseException | None = None
    """The ``SystemExit`` that ended the program."""
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    _held: list[_Entry] = field(default_factory=list)

    @property
    def unfinished(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.tasks if not task.done()]


PROCESS: ContextVar[Process | None] = ContextVar("simulated-process", default=None)
"""Where a callback or task belongs. Tasks and callbacks take it over from who made them."""


class _Entry:
    __slots__ = ("handle", "process", "task")

    def __init__(self, handle: asyncio.Handle, task: object | None, process: Process | None) -> None:
        self.handle = handle
        self.task = task
        """Whose step it is; ``None`` for a plain callback."""
        self.process = process


class SimulatedTask(asyncio.Task[T]):
    """One whose place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, *arguments: Any, **named: Any) -> None:
        self._number = number
        super().__init__(*arguments, **named)

    def __hash__(self) -> int:
        return self._number


class SimulatedFuture(asyncio.Future[T]):
    """One whose place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """``disorder`` is how often the next step is chosen at random instead of in order, from 0 to 1."""

    def __init__(self, random: Random, disorder: float = 1.0) -> None:
        self.random = random
        self.steps = 0
        self.failure: BaseException | None = None
        """Raised out of the run as soon as the current step has ended, whatever the step does about it."""
        self.on_exit: Callable[[Process], None] = lambda process: None
        """Told when ``SystemExit`` leaves a task of a process."""
        self._disorder = disorder
        self._now = 1000.0
        self._ready: deque[_Entry] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, _Entry]] = []
        self._numbers = count(1)
        self._steps_without_timer = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_running = False
        self._is_closed = False

    # Time

    def time(self) -> float:
        return self._now

    def wall_time(self) -> float:
        """What the clock on the wall of the current process shows, in seconds since the epoch."""
        process = PROCESS.get()
        return EPOCH + self._now + (process.clock_offset_s if process is not None else 0.0)

    # Processes

    @contextmanager
    def within(self, process: Process) -> Iterator[None]:
        """What is started here belongs to the process."""
        token = PROCESS.set(process)
        try:
            yield
        finally:
            PROCESS.reset(token)

    def spawn(self, process: Process, work: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
        with self.within(process):
            return self.create_task(work, name=f"{process.name} {name}".strip())

    def kill(self, process: Process) -> None:
        process.state = State.DEAD
        process._held.clear()

    def pause(self, process: Process) -> None:
        if process.state is State.RUNNING:
            process.state = State.PAUSED

    def resume(self, process: Process) -> None:
        if process.state is State.PAUSED:
            process.state = State.RUNNING
            self._ready.extend(process._held)
            process._held.clear()

    def fail(self, error: BaseException) -> None:
        """End the run with this error, also from within code that catches everything."""
        self.failure = self.failure or error

    # What tasks and futures need of a loop

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, arguments, self, context)
        self._ready.append(_Entry(handle, _task_of(callback), context.get(PROCESS)))
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *arguments, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, arguments, self, context)
        entry = _Entry(handle, _task_of(callback), context.get(PROCESS))
        heapq.heappush(self._timers, (when, next(self._numbers), handle, entry))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(next(self._numbers), self)

    def create_task(
        self,
        work: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = SimulatedTask(
            next(self._numbers), work, loop=self, name=name, context=context
        )
        process = PROCESS.get() if context is None else context.get(PROCESS)
        (self._tasks if process is None else process.tasks).append(task)
        if process is not None:
            self._tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, function: Callable[..., T], *arguments: Any
    ) -> asyncio.Future[T]:
        """Run the function in one go, at a later step, and let its result arrive still later.

        As with a thread, a cancellation in between does not stop the function.
        """
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            result, error = None, None
            events._set_running_loop(None)
            try:
                result = function(*arguments)
            except BaseException as raised:
                error = raised
            finally:
                events._set_running_loop(self)
            self.call_later(self.random.choice(THREAD_COSTS_S), settle, result, error)

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.call_later(self.random.choice(THREAD_COSTS_S), work)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What a callback raises is a fault. What nobody asked a task for is reported at random times."""
        error = context.get("exception")
        if error is not None and "never retrieved" not in str(context.get("message")):
            self.fail(error)

    def add_signal_handler(self, number: int, callback: Callable[..., object], *arguments: Any) -> None:  # type: ignore[override]
        raise NotImplementedError

    async def shutdown_asyncgens(self) -> None:
        """Generators are closed with their tasks."""

    async def shutdown_default_executor(self) -> None:
        """There is none."""

    # Running

    def run_until_complete(self, work: Coroutine[Any, Any, T] | Any) -> T:
        main: asyncio.Task[T] = self.create_task(work)
        self._is_running = True
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not main.done():
                self._turn()
                if self.failure is not None:
                    raise self.failure
        finally:
            events._set_running_loop(before)
            self._is_running = False
        return main.result()

    def _turn(self) -> None:
        """Run one callback, or let the time of the next one come."""
        self._bring_in_due()
        entry = self._choose()
        if entry is None:
            self._advance()
            return
        self.steps += 1
        self._steps_without_timer += 1
        if self._steps_without_timer > STEPS_WITHOUT_TIMER_MAX:
            raise Violation(
                f"Endless loop: {self._steps_without_timer} steps without waiting.\n{self.stacks()}"
            )
        self._now += self.random.choice(STEP_COSTS_S)
        try:
            entry.handle._run()
        except SystemExit as error:
            # Not KeyboardInterrupt: whoever runs the simulation wants to end it.
            if entry.process is None:
                raise
            entry.process.exited = error
            self.on_exit(entry.process)

    def _choose(self) -> _Entry | None:
        """Take the next callback out of those that are ready."""
        ready = self._ready
        while ready:
            candidates: list[int] = []
            tasks: set[int] = set()
            stale: list[int] = []
            for at, entry in enumerate(ready):
                process = entry.process
                if entry.handle._cancelled or (process is not None and process.state is not State.RUNNING):
                    stale.append(at)
                    continue
                if entry.task is None:
                    candidates.append(at)
                    break
                if id(entry.task) not in tasks:
                    tasks.add(id(entry.task))
                    candidates.append(at)
            if stale:
                self._drop(stale)
                continue
            chosen = candidates[0]
            if len(candidates) > 1 and self.random.random() < self._disorder:
                chosen = self.random.choice(candidates)
            entry = ready[chosen]
            del ready[chosen]
            return entry
        return None

    def _drop(self, places: Sequence[int]) -> None:
        """Take out what was cancelled or belongs to dead processes; keep aside what is paused."""
        entries = [self._ready[at] for at in places]
        for at in reversed(places):
            del self._ready[at]
        for entry in entries:
            process = entry.process
            if process is not None and process.state is State.PAUSED and not entry.handle._cancelled:
                process._held.append(entry)

    def _bring_in_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, handle, entry = heapq.heappop(self._timers)
            if not handle._cancelled:
                self._ready.append(entry)

    def _advance(self) -> None:
        while self._timers:
            when, _, handle, entry = self._timers[0]
            if handle._cancelled or (entry.process is not None and entry.process.state is State.DEAD):
                heapq.heappop(self._timers)
                continue
            self._now = max(self._now, when)
            self._steps_without_timer = 0
            return
        raise Violation(f"Deadlock: no task can go on, and no timer is set.\n{self.stacks()}", "deadlock")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """``TimerHandle.cancel`` calls it. Cancelled timers are left out when their time comes."""

    def stacks(self) -> str:
        """Where each unfinished task is."""
        out = io.StringIO()
        for task in self._tasks:
            if not task.done():
                task.print_stack(file=out)
        return out.getvalue()

    def close(self) -> None:
        """Throw away what is unfinished. Nothing of it goes on, so nothing of it may count any more."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _throw_away(task.get_coro())
                elif not task.cancelled():
                    task.exception()
        finally:
            events._set_running_loop(before)
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()
        self._is_closed = True


def _throw_away(coroutine: Any) -> None:
    """End a coroutine at the place where it waits, and at those where it waits to tidy up."""
    for _ in range(100):
        try:
            coroutine.close()
        except RuntimeError:
            # It went on waiting elsewhere.
            continue
        except BaseException:
            return
        return


def _task_of(callback: Callable[..., object]) -> object | None:
    """The task of which this callback is a step."""
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return None
    name = getattr(callback, "__name__", "step")
    # ``task.cancel`` and the like are called by others.
    return owner if "step" in name or "wakeup" in name else None
