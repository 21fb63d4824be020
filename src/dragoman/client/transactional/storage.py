"""The application's database, as a running client uses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from dragoman.client.contracts import Bound
from dragoman.client.pausing import clock_of
from dragoman.client.role import Sending
from dragoman.client.transactional.outbox import Outbox
from dragoman.client.transactional.receiving import forget_old
from dragoman.client.transactional.relay import Relay
from dragoman.client.transactional.tables import ALL, create_tables
from dragoman.core.broker import Broker
from dragoman.core.database import Database

T = TypeVar("T")


class Storage:
    """Holds what was handled and what is to be sent, and sends it."""

    def __init__(self, database: Database, broker: Broker, relay: bool) -> None:
        self.database = database
        self._clock = clock_of(broker)
        self._relay = Relay(database, broker) if relay else None

    async def start(self) -> None:
        await asyncio.to_thread(self._prepare)
        if self._relay is not None:
            self._relay.start()

    def _prepare(self) -> None:
        create_tables(self.database, ALL)
        forget_old(self.database, time.time())

    def outbox(self, channel: str, bound: Bound, sending: Sending) -> Outbox[T]:
        tell: Callable[[], None] = _nobody if self._relay is None else self._relay.tell
        return Outbox(channel, bound, tell, self._clock, sending)

    async def stop(self) -> None:
        if self._relay is not None:
            await self._relay.stop()


def _nobody() -> None:
    """Another process relays."""
