"""How loops are ended."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dragoman.client import cancellation


async def test_a_loop_ends_though_a_cancellation_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_NOTICED_WITHIN", 0.01)
    begun = asyncio.Event()

    async def loop() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(loop())
    await begun.wait()
    async with asyncio.timeout(60):
        await cancellation.end(task)
    assert task.cancelled()
