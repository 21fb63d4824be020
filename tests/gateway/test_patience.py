"""One timer for many: what takes too long is ended, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.gateway.patience import Patience


async def never() -> None:
    await asyncio.Event().wait()


async def quick() -> str:
    await asyncio.sleep(0)
    return "done"


async def test_what_is_quick_is_not_disturbed() -> None:
    patience = Patience(60.0)
    assert await asyncio.gather(*(patience.limit(quick()) for _ in range(50))) == ["done"] * 50


async def test_what_takes_too_long_is_ended_and_its_task_goes_on() -> None:
    patience = Patience(0.02)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await patience.limit(never())
        assert await patience.limit(quick()) == "done"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_many_are_ended_each_by_itself() -> None:
    patience = Patience(0.02)
    found = await asyncio.gather(*(patience.limit(never()) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(each, TimeoutError) for each in found)


async def test_a_cancellation_from_outside_stays_one() -> None:
    patience = Patience(60.0)
    task = asyncio.create_task(patience.limit(never()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
