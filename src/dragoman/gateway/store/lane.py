"""Work for a database, as much as is waiting in one transaction, in one thread."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation
from dragoman.core.errors import NotNow, RegistryUnavailable

T = TypeVar("T")
Work = Callable[[Transaction], T]
Outcome = tuple[Any, BaseException | None]

_MOST = 256
_ATTEMPTS = 20


class Lane:
    """A commit waits for the disk; all that arrive meanwhile share the next one.

    Work may be done several times, each time from the beginning, so it must not change anything but the
    database. If together it fails, each is done by itself, and fails or succeeds by itself.
    """

    def __init__(self, database: Database, *, write: bool) -> None:
        self._database = database
        self._write = write
        self._waiting: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        self._draining: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-store")

    async def run(self, work: Work[T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        if self._draining is not None:
            await asyncio.wait([self._draining])
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                work = [each for each, _ in batch]
                outcomes = await loop.run_in_executor(self._thread, self._do, work)
                for (_, future), (result, error) in zip(batch, outcomes, strict=True):
                    if future.done():
                        continue
                    if error is None:
                        future.set_result(result)
                    else:
                        future.set_exception(error)
        finally:
            self._draining = None

    def _do(self, batch: Sequence[Work[Any]]) -> list[Outcome]:
        if len(batch) > 1:
            try:
                with self._database.transaction(write=self._write) as tx:
                    return [(work(tx), None) for work in batch]
            except Exception:
                # Which of them it was shows when each is done by itself.
                return [self._alone(work) for work in batch]
        return [self._alone(work) for work in batch]

    def _alone(self, work: Work[Any]) -> Outcome:
        for attempt in range(_ATTEMPTS):
            try:
                with self._database.transaction(write=self._write) as tx:
                    result = work(tx)
            except (UniqueViolation, TransactionConflict):
                time.sleep(random.uniform(0, 0.005 * (attempt + 1)))
            except RegistryUnavailable as error:
                return None, away(error)
            except Exception as error:
                return None, error
            else:
                return result, None
        return None, away(None)


def away(cause: BaseException | None) -> NotNow:
    error = NotNow(
        "The store of the gateway cannot be used just now.", code="gateway.store-away", next="Try again."
    )
    error.retry_after = 2.0
    error.__cause__ = cause
    return error
