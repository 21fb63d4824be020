"""Cancellation: of a handler by the loop, or of something inside it; and how a loop is ended."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.core.errors import ClientError

_NOTICED_WITHIN = 5.0


def as_failure(error: asyncio.CancelledError) -> Exception:
    """If something inside the current task was cancelled, and not the task itself, a failure like others.

    Raises ``error`` if it is the task that is to end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    return ClientError(
        "The handler ended by a cancellation of its own.",
        code="client.handler-cancelled",
        next="Catch CancelledError where the handler awaits a task that may be cancelled.",
    )


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended.

    Once is not enough: a driver may lose a cancellation that comes together with what it waits for, and a
    loop around it would then go on for ever.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_NOTICED_WITHIN)
