"""Plain functions in threads, with the context of the task that waits for them."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_thread_of(executor: Executor, work: Callable[[], T]) -> T:
    """What the work gives or raises."""
    run = partial(contextvars.copy_context().run, _stopping, work)
    return await asyncio.get_running_loop().run_in_executor(executor, run)


def _stopping(work: Callable[[], T]) -> T:
    try:
        return work()
    except StopIteration as error:
        # No future can carry it: whoever waits would wait for ever.
        raise RuntimeError("A StopIteration left the function.") from error
