"""All writes of one process, one after the other, as many as are waiting in one transaction.

A commit waits for the disk, and the more ask at once, the more of them share that wait. Each still
succeeds or fails by itself: a refusal, which as a rule comes before anything is written, leaves the others
alone, and if it comes later they are all done again one by one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from dragoman.core.backoff import contention
from dragoman.core.database import Database, Row, Transaction, TransactionConflict, UniqueViolation
from dragoman.core.errors import DragomanError, RegistryUnavailable
from dragoman.registry.name import ContractName
from dragoman.registry.store.schemas import lock_context

T = TypeVar("T")
Work = Callable[[Transaction], T]

_MOST = 64
_ATTEMPTS = 20
_CONTENTION = contention(0.0025, 0.05)


class _Item(NamedTuple):
    work: Work[Any]
    touched: tuple[ContractName, ...]
    done: Future[Any]


class Writer:
    """``announce`` is told what was touched, after the commit and before the caller hears of it."""

    def __init__(self, database: Database, announce: Callable[[ContractName], None]) -> None:
        self._database = database
        self._announce = announce
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._closed = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="registry-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T], touched: tuple[ContractName, ...]) -> Future[T]:
        """``work`` may run several times, each time from the beginning."""
        done: Future[T] = Future()
        with self._guard:
            if self._closed:
                raise RegistryUnavailable("The registry was closed.")
            self._queue.put(_Item(work, touched, done))
        return done

    def close(self) -> None:
        """Everything that was submitted is done before this returns."""
        with self._guard:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open = True
        while open:
            items = [self._queue.get()]
            while len(items) < _MOST and items[-1] is not None:
                try:
                    items.append(self._queue.get_nowait())
                except Empty:
                    break
            open = items[-1] is not None
            self._write(
                [item for item in items if item is not None and item.done.set_running_or_notify_cancel()]
            )

    def _write(self, items: Sequence[_Item]) -> None:
        if len(items) > 1 and self._write_together(items):
            return
        for item in items:
            self._write_alone(item)

    def _write_together(self, items: Sequence[_Item]) -> bool:
        """Whether the transaction was committed; if not, nothing happened at all."""
        outcomes: list[tuple[Any, DragomanError | None]] = []
        try:
            with self._database.transaction() as tx:
                _lock(tx, items)
                for item in items:
                    watched = _Watched(tx)
                    try:
                        outcomes.append((item.work(watched), None))
                    except DragomanError as refusal:
                        if watched.wrote:
                            raise
                        outcomes.append((None, refusal))
        except Exception:
            return False
        for item, (result, error) in zip(items, outcomes, strict=True):
            self._finish(item, result, error)
        return True

    def _write_alone(self, item: _Item) -> None:
        for failures in range(1, _ATTEMPTS + 1):
            try:
                with self._database.transaction() as tx:
                    _lock(tx, [item])
                    result = item.work(tx)
            except (UniqueViolation, TransactionConflict):
                # Another node was faster; the next attempt sees what it did.
                time.sleep(_CONTENTION.wait_s(failures))
            except BaseException as error:
                item.done.set_exception(error)
                return
            else:
                self._finish(item, result, None)
                return
        item.done.set_exception(RegistryUnavailable("The registry is too busy to write.", next="Try again."))

    def _finish(self, item: _Item, result: Any, error: DragomanError | None) -> None:
        if error is not None:
            item.done.set_exception(error)
            return
        for name in item.touched:
            self._announce(name)
        item.done.set_result(result)


def _lock(tx: Transaction, items: Sequence[_Item]) -> None:
    """Contexts are locked first and in order, so that no two nodes wait for each other."""
    for context in sorted({name.context for item in items for name in item.touched}):
        lock_context(tx, context)


class _Watched:
    """A transaction that remembers whether anything was written through it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.wrote = False

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        self.wrote = self.wrote or not sql.startswith("SELECT")
        return self._tx.execute(sql, parameters)

    def insert_id(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        self.wrote = True
        return self._tx.insert_id(sql, parameters)

    @property
    def changed(self) -> int:
        return self._tx.changed
