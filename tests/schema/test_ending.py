"""How tasks are ended."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dragoman.core import ending


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_NOTICED_WITHIN", 0.01)


async def test_a_loop_ends_though_a_cancellation_was_lost() -> None:
    begun = asyncio.Event()

    async def loop() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(loop())
    await begun.wait()
    async with asyncio.timeout(60):
        await ending.end(task)
    assert task.cancelled()


async def test_a_loop_ends_though_its_driver_is_answered_at_that_moment() -> None:
    """``asyncio.wait_for`` takes the answer, and forgets the cancellation."""
    answers: list[asyncio.Future[None]] = []

    async def loop() -> None:
        while True:
            answers.append(asyncio.get_running_loop().create_future())
            await asyncio.wait_for(answers[-1], 60)

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    answers[-1].set_result(None)
    async with asyncio.timeout(60):
        await ending.end(task)
    assert task.cancelled()


async def test_what_ends_in_another_way_is_ended_too() -> None:
    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("by the test")

    done, failing = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(fails())
    await done
    await ending.end(done, failing)
    await ending.end()
    assert isinstance(failing.exception(), ValueError)
