"""The simulated loop: time that jumps, orders from a seed, processes that stop and die, and no way out."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dragoman.core.clock import SystemClock
from dragoman.testing.simulation import Violation
from dragoman.testing.simulation.determinism import simulated
from dragoman.testing.simulation.loop import Process, SimulatedLoop

Work = Callable[[SimulatedLoop], Coroutine[Any, Any, Any]]


def run(work: Work, seed: int = 0, disorder: float = 1.0) -> Any:
    with simulated(seed, disorder) as loop:
        return loop.run_until_complete(work(loop))


def clocks() -> list[float]:
    return [time.monotonic(), time.perf_counter(), time.time(), SystemClock().now()]


def test_an_hour_takes_no_time() -> None:
    async def work(loop: SimulatedLoop) -> list[float]:
        before = clocks()
        await asyncio.sleep(3600)
        return [now - then for now, then in zip(clocks(), before, strict=True)]

    started = time.monotonic()
    assert run(work) == pytest.approx([3600.0] * 4, abs=0.1)
    assert time.monotonic() - started < 60


def test_clocks_and_chance_are_put_back() -> None:
    def sources() -> list[object]:
        return [time.time, time.monotonic, time.perf_counter, os.urandom, SystemClock.now, random.getstate()]

    before = sources()
    run(lambda loop: asyncio.sleep(1))
    assert sources() == before


async def order_of_tasks(loop: SimulatedLoop) -> str:
    """Three tasks note what they do, step by step."""
    found: list[str] = []

    async def note(name: str) -> None:
        for step in range(3):
            found.append(f"{name}{step}")
            await asyncio.sleep(0)

    await asyncio.gather(*(note(name) for name in "abc"))
    return " ".join(found)


def test_the_seed_decides_the_order_of_tasks() -> None:
    orders = [run(order_of_tasks, seed) for seed in range(30)]
    assert orders == [run(order_of_tasks, seed) for seed in range(30)]
    assert len(set(orders)) > 10


def test_without_disorder_tasks_take_turns_as_in_asyncio() -> None:
    assert {run(order_of_tasks, seed, 0.0) for seed in range(10)} == {"a0 b0 c0 a1 b1 c1 a2 b2 c2"}


def test_the_steps_of_one_task_keep_their_order() -> None:
    for seed in range(20):
        steps = run(order_of_tasks, seed).split()
        assert [step for step in steps if step[0] == "a"] == ["a0", "a1", "a2"]


def test_nothing_overtakes_a_plain_callback() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        found: list[str] = []

        async def later() -> None:
            found.append("task")

        loop.call_soon(found.append, "first")
        loop.call_soon(found.append, "second")
        await asyncio.create_task(later())
        return found

    assert {tuple(run(work, seed)) for seed in range(30)} == {("first", "second", "task")}


def test_timers_run_in_the_order_of_their_times() -> None:
    async def work(loop: SimulatedLoop) -> list[int]:
        found: list[int] = []
        for number in (3, 1, 2):
            loop.call_later(number, found.append, number)
        loop.call_later(2.5, found.append, 0).cancel()
        await asyncio.sleep(5)
        return found

    assert run(work) == [1, 2, 3]


def test_a_deadlock_shows_where_each_task_waits() -> None:
    async def wait_for_nothing(loop: SimulatedLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Violation, match="wait_for_nothing"):
        run(wait_for_nothing)


def test_an_endless_loop_is_noticed() -> None:
    async def spin(loop: SimulatedLoop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Violation, match="Endless"):
        run(spin)


def test_what_a_callback_raises_ends_the_run() -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="no number"):
        run(work)


def test_a_violation_passes_code_that_catches_everything() -> None:
    async def work(loop: SimulatedLoop) -> None:
        try:
            loop.fail(Violation("seen"))
            await asyncio.sleep(1)
        except BaseException:
            await asyncio.sleep(1)

    with pytest.raises(Violation, match="seen"):
        run(work)


def test_functions_in_threads_run_in_one_go_and_answer_later() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        found: list[str] = []

        def outside() -> int:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            found.append("thread")
            return 42

        async def beside() -> None:
            await asyncio.sleep(0)
            found.append("task")

        task = asyncio.create_task(beside())
        assert await asyncio.to_thread(outside) == 42
        with pytest.raises(ValueError, match="x"):
            await asyncio.to_thread(int, "x")
        await task
        return found

    assert {tuple(run(work, seed)) for seed in range(30)} == {("thread", "task"), ("task", "thread")}


async def tick(found: list[float], loop: SimulatedLoop) -> None:
    try:
        while True:
            found.append(loop.time())
            await asyncio.sleep(1)
    finally:
        found.append(-1.0)


def test_a_dead_process_does_nothing_any_more_not_even_tidy_up() -> None:
    async def work(loop: SimulatedLoop) -> list[float]:
        found: list[float] = []
        process = Process("one")
        loop.spawn(process, tick(found, loop))
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(10)
        return list(found)

    found = run(work)
    assert len(found) == 3
    assert -1.0 not in found


def test_a_paused_process_goes_on_where_it_was() -> None:
    async def work(loop: SimulatedLoop) -> list[float]:
        found: list[float] = []
        process = Process("one")
        loop.spawn(process, tick(found, loop))
        await asyncio.sleep(1.5)
        loop.pause(process)
        await asyncio.sleep(10)
        loop.resume(process)
        await asyncio.sleep(1.5)
        return [moment - found[0] for moment in found]

    assert run(work) == pytest.approx([0.0, 1.0, 11.5, 12.5], abs=0.1)


def test_a_process_has_a_clock_on_the_wall_of_its_own() -> None:
    async def work(loop: SimulatedLoop) -> tuple[float, float]:
        async def ask() -> tuple[float, float]:
            return time.time(), time.monotonic()

        process = Process("one", clock_offset_s=-3600.0)
        here = await ask()
        there = await loop.spawn(process, ask())
        return tuple(round(one - other) for one, other in zip(there, here, strict=True))

    assert run(work) == (-3600, 0)


def test_a_program_that_exits_is_told_of_and_the_others_go_on() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        async def leave() -> None:
            raise SystemExit(3)

        ended: list[str] = []
        loop.on_exit = lambda process: ended.append(f"{process.name}: {process.exited!r}")
        loop.spawn(Process("one"), leave())
        await asyncio.sleep(1)
        return ended

    assert run(work) == ["one: SystemExit(3)"]


def test_sets_of_tasks_have_the_same_order_in_each_run() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(50)}
        names = [task.get_name() for task in tasks]
        await asyncio.wait(tasks)
        return names

    assert run(work) == run(work)


def test_an_interrupt_ends_the_simulation_and_not_a_process_in_it() -> None:
    async def work(loop: SimulatedLoop) -> None:
        async def interrupted() -> None:
            raise KeyboardInterrupt

        loop.spawn(Process("one"), interrupted())
        await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run(work)
