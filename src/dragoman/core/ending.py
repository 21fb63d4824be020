"""How tasks are ended, and know it."""

from __future__ import annotations

import asyncio
from typing import Any

_NOTICED_WITHIN = 5.0


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks until all have ended, in whatever way.

    Once is not enough: a driver may lose a cancellation that comes together with what it waits for, as
    ``asyncio.wait_for`` does before Python 3.12, and a loop around it would then go on for ever.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_NOTICED_WITHIN)
    for task in tasks:
        if not task.cancelled():
            task.exception()


def outlive_program(task: asyncio.Task[Any]) -> None:
    """Keep a task of a connection when all tasks of the program are cancelled.

    ``asyncio.run`` does that as soon as anything raises ``SystemExit`` or ``KeyboardInterrupt``, and before
    ``async with`` blocks have ended: a client that closes still has to acknowledge what it has handled.
    Whoever owns the connection ends the task by closing it. If nobody does, the task goes with its loop.
    """
    asyncio.tasks._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def is_ending() -> bool:
    """Whether the current task is to end, and not only something that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
