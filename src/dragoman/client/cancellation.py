"""How handling a message may end: with a result, an exception, or in ways that ``except Exception`` misses.

Python has exceptions that are not ``Exception``: cancellations, ``SystemExit``, those of extension modules. A
handler may also cancel its own task. None of them may take the task of a lane with it, and none may be taken
for the end of the client: that is known from ``ENDING`` alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from dragoman.core.ending import is_ending
from dragoman.core.errors import ClientError, DecodeError, MessageError

ENDING: ContextVar[Callable[[], bool]] = ContextVar("dragoman-ending")
"""Set in the task of a lane: whether the client, and not a handler, ends this task."""

T = TypeVar("T")

_PROGRAM = (SystemExit, KeyboardInterrupt)
"""They end the program. The message is not acknowledged, so it is delivered again."""


def as_failure(error: BaseException) -> Exception:
    """The failure that handlers and middleware around this one see.

    Raises ``error`` if it ends the program, or if the current task is cancelled: a timeout around the handler
    may have done that, and it needs the cancellation.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, _PROGRAM) or (isinstance(error, GeneratorExit) and _is_thrown_away()):
        raise error
    if isinstance(error, asyncio.CancelledError):
        if is_ending():
            raise error
        return _cancelled()
    return ClientError(
        f"The handler ended with {type(error).__qualname__}, which is not an Exception.",
        code="client.handler-ended",
        next="Raise an Exception from the handler, or catch this one there.",
    )


async def failure_of(error: BaseException) -> Exception:
    """The failure that the error strategy of an endpoint sees: outside of all that users have written.

    Raises ``error`` if it ends the program, or if the client ends this task.
    """
    failure = coming_failure(error)
    await take_back_cancellation()
    return failure


def coming_failure(error: BaseException) -> Exception:
    """What ``failure_of`` will give outside, for those inside who have to act on a failure before that.

    They raise ``error`` itself afterwards, for a timeout around the handler needs its cancellation. Raises
    ``error`` if it ends the program, or if the client ends this task.
    """
    if not isinstance(error, asyncio.CancelledError):
        return as_failure(error)
    if _is_closing():
        raise error
    return _cancelled()


async def contain(call: Callable[..., Awaitable[T] | None], *arguments: object) -> T | None:
    """Call what a user has written. Only exceptions of the class ``Exception`` come out, however it ends.

    Raises others if they end the program, or if the client ends this task.
    """
    try:
        pending = call(*arguments)
        result = None if pending is None else await pending
    except BaseException as error:
        failure = await failure_of(error)
        if failure is error:
            raise
        raise failure from error
    # If the client ends this task, what the call has finished before counts all the same.
    with contextlib.suppress(asyncio.CancelledError):
        await take_back_cancellation()
    return result


def unreadable(error: BaseException) -> MessageError:
    """Why a message cannot be read, whatever its codec raised. Raises ``error`` if it ends the program."""
    if isinstance(error, MessageError):
        return error
    if isinstance(error, _PROGRAM):
        raise error
    return DecodeError(
        f"The codec failed with {type(error).__qualname__}.",
        code="message.codec",
        next="Report it with the payload and both schemas: a codec refuses what it cannot read.",
    )


async def take_back_cancellation() -> None:
    """Undo what a handler did to the task that called it, so that the next message does not suffer from it.

    Raises ``CancelledError`` if the client ends this task.
    """
    task = asyncio.current_task()
    while task is not None and task.cancelling() and ENDING.get(None) is not None:
        if _is_closing():
            raise asyncio.CancelledError
        while task.cancelling():
            task.uncancel()
        try:
            # A cancellation that was not delivered yet would come at the next await.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if _is_closing():
                raise


def _is_thrown_away() -> bool:
    """Python ends a coroutine that is never continued by ``GeneratorExit``, outside of its task."""
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def _is_closing() -> bool:
    """Outside of a lane, a cancellation of the task is meant."""
    closing = ENDING.get(None)
    return is_ending() if closing is None else closing()


def _cancelled() -> ClientError:
    return ClientError(
        "The handler ended by a cancellation of its own.",
        code="client.handler-cancelled",
        next="Catch CancelledError where the handler awaits a task that may be cancelled.",
    )
