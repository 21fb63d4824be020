"""Waiting for something to come true."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Return once the condition, plain or asynchronous, is true. Fails the test if it never is."""
    async with asyncio.timeout(seconds):
        while True:
            result = condition()
            if inspect.isawaitable(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.002)
