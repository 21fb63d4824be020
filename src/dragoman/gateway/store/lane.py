"""Work for a database, as much as is waiting in one transaction, in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dragoman.core.backoff import contention
from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation
from dragoman.core.errors import NotNow, RegistryUnavailable

log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")
Work = Callable[[Transaction], T]
Outcome = tuple[Any, BaseException | None]

_MOST = 256
_BUSY = 8
_GATHER = 0.001
"""Seconds to wait for more after a batch of so many: each commit costs, and the more share it the better."""
_ATTEMPTS = 20
_CONTENTION = contention(0.0025, 0.05)


class Lane:
    """A commit waits for the disk; all that arrive meanwhile share the next one.

    Work may be done several times, each time from the beginning, so it must not change anything but the
    database. If together it fails, each is done by itself, and fails or succeeds by itself.

    On SQLite the statements of a batch run in the event loop, since they are quicker than changing threads;
    only its beginning and its commit, which may have to wait, are done in the thread.
    """

    def __init__(self, database: Database, *, write: bool) -> None:
        self._database = database
        self._write = write
        self._inline = database.dialect == "sqlite"
        self._waiting: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        self._draining: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-store")

    def run(self, work: Work[T]) -> asyncio.Future[T]:
        """Begun at once, whether or not it is waited for."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return future

    async def close(self) -> None:
        if self._draining is not None:
            await asyncio.wait([self._draining])
        self._thread.shutdown()

    async def _drain(self) -> None:
        busy = False
        try:
            while self._waiting:
                if busy:
                    await asyncio.sleep(_GATHER)
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                busy = len(batch) >= _BUSY
                outcomes = await self._done([work for work, _ in batch])
                for (_, future), (result, error) in zip(batch, outcomes, strict=True):
                    if future.done():
                        continue
                    if error is None:
                        future.set_result(result)
                    else:
                        future.set_exception(error)
        finally:
            self._draining = None

    async def _done(self, batch: Sequence[Work[Any]]) -> list[Outcome]:
        loop = asyncio.get_running_loop()
        try:
            if self._inline:
                return await self._here(batch, loop)
            if len(batch) > 1:
                return await loop.run_in_executor(self._thread, self._together, batch)
        except RegistryUnavailable as error:
            return [(None, away(error)) for _ in batch]
        except Exception:
            log.debug("A batch failed; which of it, shows when each is done by itself.", exc_info=True)
        return await loop.run_in_executor(self._thread, lambda: [self._alone(work) for work in batch])

    async def _here(self, batch: Sequence[Work[Any]], loop: asyncio.AbstractEventLoop) -> list[Outcome]:
        transaction = self._database.transaction(write=self._write)
        tx = await loop.run_in_executor(self._thread, transaction.__enter__)
        try:
            outcomes: list[Outcome] = [(work(tx), None) for work in batch]
        except BaseException as error:
            await loop.run_in_executor(self._thread, _abandon, transaction, error)
            raise
        await loop.run_in_executor(self._thread, transaction.__exit__, None, None, None)
        return outcomes

    def _together(self, batch: Sequence[Work[Any]]) -> list[Outcome]:
        with self._database.transaction(write=self._write) as tx:
            return [(work(tx), None) for work in batch]

    def _alone(self, work: Work[Any]) -> Outcome:
        for failures in range(1, _ATTEMPTS + 1):
            try:
                with self._database.transaction(write=self._write) as tx:
                    result = work(tx)
            except (UniqueViolation, TransactionConflict):
                time.sleep(_CONTENTION.wait_s(failures))
            except RegistryUnavailable as error:
                return None, away(error)
            except Exception as error:
                return None, error
            else:
                return result, None
        return None, away(None)


def _abandon(transaction: AbstractContextManager[Transaction], error: BaseException) -> None:
    """Roll it back. The error itself is told by whoever met it."""
    with contextlib.suppress(BaseException):
        transaction.__exit__(type(error), error, error.__traceback__)


def away(cause: BaseException | None) -> NotNow:
    error = NotNow(
        "The store of the gateway cannot be used just now.", code="gateway.store-away", next="Try again."
    )
    error.retry_after = 2.0
    error.__cause__ = cause
    return error
