"""Where the registry's rules run: transactions in threads, tried again when nodes collide."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation
from dragoman.core.errors import RegistryUnavailable
from dragoman.registry.limits import Limits
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parser
from dragoman.registry.store.tables import migrate

T = TypeVar("T")
Work = Callable[[Transaction], T]

_ATTEMPTS = 20


class Engine:
    """One per process and database. ``on_change`` is told which contract changed, once it is committed."""

    def __init__(self, database: Database, *, limits: Limits | None = None, threads: int = 8) -> None:
        self.database = database
        self.limits = limits or Limits()
        self.parser = Parser(self.limits)
        self._listeners: list[Callable[[ContractName], None]] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="registry")
        migrate(database)

    def on_change(self, listener: Callable[[ContractName], None]) -> None:
        self._listeners.append(listener)

    async def read(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.read_now, work)

    async def write(self, work: Work[T], *touched: ContractName) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: self.write_now(work, *touched))

    def read_now(self, work: Work[T]) -> T:
        with self.database.transaction(write=False) as tx:
            return work(tx)

    def write_now(self, work: Work[T], *touched: ContractName) -> T:
        """Run it until it is committed. ``work`` may run several times, each time from the beginning."""
        for attempt in range(_ATTEMPTS):
            try:
                with self.database.transaction() as tx:
                    result = work(tx)
                break
            except (UniqueViolation, TransactionConflict):
                # Another node was faster; the next attempt sees what it did.
                time.sleep(random.uniform(0, 0.005 * (attempt + 1)))
        else:
            raise RegistryUnavailable("The registry is too busy to write.", next="Try again.")
        for name in touched:
            self.announce(name)
        return result

    def announce(self, name: ContractName) -> None:
        for listener in self._listeners:
            listener(name)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        self.database.close()
