"""Where the registry's rules run: reads in threads, writes through the one writer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dragoman.core.database import Database
from dragoman.registry.limits import Limits
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parser
from dragoman.registry.upgrading import upgrade
from dragoman.registry.writer import Work, Writer

T = TypeVar("T")

log = logging.getLogger("dragoman.registry")


class Engine:
    """One per process and database. ``on_change`` is told which contract changed, once it is committed."""

    def __init__(self, database: Database, *, limits: Limits | None = None, threads: int = 8) -> None:
        self.database = database
        self.limits = limits or Limits()
        self.parser = Parser(self.limits)
        self._listeners: list[Callable[[ContractName], None]] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="registry")
        upgrade(database, self.parser)
        self._writer = Writer(database, self.announce)

    def on_change(self, listener: Callable[[ContractName], None]) -> None:
        self._listeners.append(listener)

    async def read(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.read_now, work)

    async def write(self, work: Work[T], *touched: ContractName) -> T:
        """``touched`` names what may change: its context is locked, its readers are told."""
        return await asyncio.wrap_future(self._writer.submit(work, touched))

    def read_now(self, work: Work[T]) -> T:
        with self.database.transaction(write=False) as tx:
            return work(tx)

    def write_now(self, work: Work[T], *touched: ContractName) -> T:
        return self._writer.submit(work, touched).result()

    def announce(self, name: ContractName) -> None:
        """Tell all listeners. What is committed stays so, whatever becomes of them."""
        for listener in self._listeners:
            try:
                listener(name)
            except Exception:
                log.exception("a listener failed", extra={"contract": str(name)})

    def close(self) -> None:
        self._writer.close()
        self._threads.shutdown(wait=True)
        self.database.close()
