"""Cancellation: of a handler by the loop, or of something inside it."""

from __future__ import annotations

import asyncio

from dragoman.core.ending import is_ending
from dragoman.core.errors import ClientError


def as_failure(error: asyncio.CancelledError) -> Exception:
    """If something inside the current task was cancelled, and not the task itself, a failure like others.

    Raises ``error`` if it is the task that is to end.
    """
    if is_ending():
        raise error
    return ClientError(
        "The handler ended by a cancellation of its own.",
        code="client.handler-cancelled",
        next="Catch CancelledError where the handler awaits a task that may be cancelled.",
    )
