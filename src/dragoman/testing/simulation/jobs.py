"""The messages that simulated handlers get: each says how its handler is to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any

from dragoman.client.client import Client
from dragoman.client.contracts import Contracts
from dragoman.client.endpoint import endpoint
from dragoman.core.loading import BROKERS, load
from dragoman.registry import connect
from dragoman.schema.records import record

CHANNELS = ("a", "b")


class Ending(StrEnum):
    """How handling one message ends."""

    RETURN = "return"
    YIELD = "return after other tasks have run"
    SLOW = "return after a while"
    RAISE = "raise an Exception, each time"
    RAISE_ONCE = "raise an Exception the first time"
    PANIC = "raise a BaseException, each time"
    PANIC_ONCE = "raise a BaseException the first time"
    CANCEL_OWN_TASK = "cancel the own task, then wait"
    CANCEL_AND_RETURN = "cancel the own task, then return"
    RAISE_CANCELLED = "raise CancelledError"
    SWALLOW = "cancel the own task, catch that, return"
    CANCELLED_FUTURE = "wait for a future that is cancelled"
    STRAY = "return, and cancel the task some time later"
    HANG = "wait until the scenario ends"
    STUBBORN = "take long, whatever cancels it"
    EXIT = "raise SystemExit the first time"
    UNREADABLE = "cannot be decoded"


WELL_BEHAVED = frozenset({Ending.RETURN, Ending.YIELD, Ending.SLOW})
QUICK = (Ending.RETURN, Ending.YIELD, Ending.SLOW)
RARE = (Ending.HANG, Ending.STUBBORN, Ending.EXIT)
FAILING = tuple(each for each in Ending if each not in WELL_BEHAVED and each not in RARE)
IN_THREADS = frozenset(
    {
        Ending.RETURN,
        Ending.RAISE,
        Ending.RAISE_ONCE,
        Ending.PANIC,
        Ending.PANIC_ONCE,
        Ending.RAISE_CANCELLED,
        Ending.UNREADABLE,
        Ending.EXIT,
    }
)
"""What a plain function can do."""


class PanicException(BaseException):
    """As extension modules in Rust raise it."""


@record
class Job:
    number: int
    ending: str


async def work(job: Job, calls: int, hanging: Callable[[], asyncio.Future[None]]) -> None:
    """End as the job says. ``calls`` is how often the handler was called for it, this time included.

    ``hanging`` gives a future that is done when the scenario ends.
    """
    ending = Ending(job.ending)
    task = asyncio.current_task()
    assert task is not None
    match ending:
        case Ending.YIELD:
            await asyncio.sleep(0)
        case Ending.SLOW:
            await asyncio.sleep(0.05 + job.number % 7 / 20)
        case Ending.CANCEL_OWN_TASK:
            task.cancel()
            await asyncio.sleep(0)
        case Ending.CANCEL_AND_RETURN:
            task.cancel()
        case Ending.SWALLOW:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        case Ending.CANCELLED_FUTURE:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        case Ending.STRAY:
            asyncio.get_running_loop().call_later(0.03, task.cancel)
        case Ending.HANG:
            await asyncio.shield(hanging())
        case Ending.STUBBORN:
            until = asyncio.get_running_loop().time() + 8.0
            while (left := until - asyncio.get_running_loop().time()) > 0:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(left)
        case _:
            work_in_thread(job, calls)


def work_in_thread(job: Job, calls: int) -> None:
    """The endings that need no event loop."""
    match Ending(job.ending):
        case Ending.RAISE:
            raise ValueError("a job that fails")
        case Ending.RAISE_ONCE if calls == 1:
            raise ValueError("a job that fails once")
        case Ending.PANIC:
            raise PanicException("a job that panics")
        case Ending.PANIC_ONCE if calls == 1:
            raise PanicException("a job that panics once")
        case Ending.RAISE_CANCELLED:
            raise asyncio.CancelledError
        case Ending.EXIT if calls == 1:
            raise SystemExit(3)


class RecordedRegistry:
    """Gives the answers that a registry gave before. A simulation has no threads, and registries have."""

    url = ""

    def __init__(self, registry: Any) -> None:
        self._registry = registry
        self._answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        async def ask(*arguments: Any, **named: Any) -> Any:
            question = repr((name, arguments, named))
            if question not in self._answers:
                self._answers[question] = await getattr(self._registry, name)(*arguments, **named)
            return self._answers[question]

        return ask


@cache
def prepared() -> tuple[RecordedRegistry, Callable[[Job], bytes]]:
    """A registry that knows the contracts of all channels, and how a job is written."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _prepare()).result()


async def _prepare() -> tuple[RecordedRegistry, Callable[[Job], bytes]]:
    broker = load(BROKERS, "memory")("memory://prepare-simulation")
    await broker.connect()
    registry = RecordedRegistry(connect("memory://"))

    def handlers(channel: str) -> list[object]:
        @endpoint(channel, group="single")
        async def single(job: Job) -> None: ...

        @endpoint(channel, group="batch")
        async def batch(jobs: list[Job]) -> None: ...

        return [single, batch]

    async with Client(
        broker, registry, [each for channel in CHANNELS for each in handlers(channel)]
    ) as client:
        bound = await Contracts(registry, client.options).bind(CHANNELS[0], Job)
        # Decoding asks for the schema.
        await registry.schema(bound.schema_id)
    await broker.close()
    return registry, bound.encode
