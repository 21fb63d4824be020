"""The idempotent receiver: a handler's work and the note that it was done are one transaction."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from dragoman.client.correlation import Correlation
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.client.reply import Answers
from dragoman.client.transactional.identity import identity_of
from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation

TRANSACTION = "transaction"
"""The delivery's note that holds the transaction while its handler runs."""
KEPT = 30 * 24 * 3600.0
"""Seconds that it is remembered which messages were handled."""
_TRIES = 10


class Once(NamedTuple):
    """How an endpoint with a transaction is called. ``call`` is plain: it runs in a thread."""

    call: Callable[[Delivery], Any]
    database: Database
    place: Correlation | None
    answers: Answers | None
    counters: ChannelMetrics
    executor: Executor

    def handler(self) -> Handler:
        async def invoke(delivery: Delivery) -> Outcome:
            identity = identity_of(delivery, self.place)
            work = partial(contextvars.copy_context().run, self._repeat, delivery, identity)
            repeated, frame = await asyncio.get_running_loop().run_in_executor(self.executor, work)
            self.counters.repeated += repeated
            if frame is not None and self.answers is not None:
                # Sent after the commit; a crash in between sends it with the next delivery.
                await self.answers.resend(delivery, frame)
            return DONE

        return invoke

    def _repeat(self, delivery: Delivery, identity: str) -> tuple[bool, bytes | None]:
        """Again when another transaction was in the way: maybe one that handled this very message."""
        for left in reversed(range(_TRIES)):
            try:
                return self._handle(delivery, identity)
            except TransactionConflict:
                if not left:
                    raise
            except UniqueViolation:
                if not left or self._is_handled(delivery, identity) is None:
                    raise
        raise AssertionError("unreachable")

    def _handle(self, delivery: Delivery, identity: str) -> tuple[bool, bytes | None]:
        consumer = delivery.route.group
        with self.database.transaction() as tx:
            found = _find(tx, consumer, identity)
            if found is not None:
                return True, found[0]
            # First, so that nobody else handles the message meanwhile.
            tx.execute(
                "INSERT INTO dragoman_handled (consumer, message, handled_at, reply) VALUES (?, ?, ?, ?)",
                (consumer, identity, time.time(), None),
            )
            delivery.notes[TRANSACTION] = tx
            try:
                result = self.call(delivery)
            finally:
                del delivery.notes[TRANSACTION]
            if result is None or self.answers is None:
                return False, None
            frame = self.answers.encode(delivery, result)
            tx.execute(
                "UPDATE dragoman_handled SET reply = ? WHERE consumer = ? AND message = ?",
                (frame, consumer, identity),
            )
        return False, frame

    def _is_handled(self, delivery: Delivery, identity: str) -> tuple[bytes | None] | None:
        with self.database.transaction(write=False) as tx:
            return _find(tx, delivery.route.group, identity)


def _find(tx: Transaction, consumer: str, identity: str) -> tuple[bytes | None] | None:
    rows = tx.execute(
        "SELECT reply FROM dragoman_handled WHERE consumer = ? AND message = ?", (consumer, identity)
    )
    return (None if rows[0][0] is None else bytes(rows[0][0]),) if rows else None


def forget_old(database: Database, now: float) -> None:
    """Nobody delivers again what was handled this long ago."""
    with database.transaction() as tx:
        tx.execute("DELETE FROM dragoman_handled WHERE handled_at < ?", (now - KEPT,))
