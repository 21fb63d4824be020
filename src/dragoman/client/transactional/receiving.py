"""The idempotent receiver: a handler's work and the note that it was done are one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from dragoman.client.cancellation import as_failure
from dragoman.client.correlation import Correlation
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.client.reply import Answers, check_undeclared
from dragoman.client.threads import in_thread_of
from dragoman.client.transactional.identity import identity_of
from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation

TRANSACTION = "transaction"
"""The delivery's note that holds the transaction while its handler runs."""
KEPT = 30 * 24 * 3600.0
"""Seconds that it is remembered which messages were handled."""
_TRIES = 10

_FIND = "SELECT reply, raised FROM dragoman_handled WHERE consumer = ? AND message = ?"
_INSERT = "INSERT INTO dragoman_handled (consumer, message, handled_at) VALUES (?, ?, ?)"
_ANSWER = "UPDATE dragoman_handled SET reply = ?, raised = ? WHERE consumer = ? AND message = ?"


class Answer(NamedTuple):
    """What the requester is told; ``raised`` names the declared error that it is."""

    frame: bytes | None = None
    raised: str | None = None
    repeated: bool = False


class Once(NamedTuple):
    """How an endpoint with a transaction is called. ``call`` is plain: it runs in a thread."""

    call: Callable[[Delivery], Any]
    database: Database
    place: Correlation | None
    answers: Answers | None
    counters: ChannelMetrics
    executor: Executor
    by_position: bool
    """Messages that have no id may be told apart by where they stand in their channel."""
    silent: bool = True
    """The endpoint may return nothing."""

    def handler(self) -> Handler:
        async def invoke(delivery: Delivery) -> Outcome:
            identity = identity_of(delivery, self.place, self.by_position)
            try:
                answer = await in_thread_of(self.executor, partial(self._answer, delivery, identity))
            except Exception:
                raise
            except BaseException as error:
                raise as_failure(error) from error
            self.counters.repeated += answer.repeated
            if answer.frame is not None and self.answers is not None:
                # Sent after the commit; a crash in between sends it with the next delivery.
                await self.answers.resend(delivery, answer.frame, answer.raised)
            return DONE

        return invoke

    def _answer(self, delivery: Delivery, identity: str) -> Answer:
        declared = () if self.answers is None else tuple(self.answers.raised)
        try:
            return self._repeat(delivery, identity, self._handle)
        except declared as error:
            if self.answers is None or not self.answers.can_tell(delivery):
                raise
            # Its work is taken back, but not its answer: whoever asks again is told the same.
            told = Answer(*self.answers.encode_error(error))
            return self._repeat(delivery, identity, lambda delivery, tx: told)

    def _repeat(self, delivery: Delivery, identity: str, work: Callable[..., Answer]) -> Answer:
        """Again when another transaction was in the way: maybe one that handled this very message."""
        for left in reversed(range(_TRIES)):
            try:
                return self._once(delivery, identity, work)
            except TransactionConflict:
                if not left:
                    raise
            except UniqueViolation:
                if not left or not self._is_handled(delivery, identity):
                    raise
        raise AssertionError("unreachable")

    def _once(self, delivery: Delivery, identity: str, work: Callable[..., Answer]) -> Answer:
        consumer = delivery.route.group
        with self.database.transaction() as tx:
            found = _find(tx, consumer, identity)
            if found is not None:
                return found
            # First, so that nobody else handles the message meanwhile.
            tx.execute(_INSERT, (consumer, identity, time.time()))
            answer = work(delivery, tx)
            if answer.frame is not None:
                tx.execute(_ANSWER, (answer.frame, answer.raised, consumer, identity))
        return answer

    def _handle(self, delivery: Delivery, tx: Transaction) -> Answer:
        delivery.notes[TRANSACTION] = tx
        try:
            result = self.call(delivery)
        finally:
            del delivery.notes[TRANSACTION]
        if self.answers is None:
            if result is not None:
                check_undeclared(delivery.message, result)
            return Answer()
        if result is None and (self.silent or not self.answers.wanted(delivery)):
            return Answer()
        return Answer(self.answers.encode(delivery, result))

    def _is_handled(self, delivery: Delivery, identity: str) -> bool:
        with self.database.transaction(write=False) as tx:
            return _find(tx, delivery.route.group, identity) is not None


def _find(tx: Transaction, consumer: str, identity: str) -> Answer | None:
    rows = tx.execute(_FIND, (consumer, identity))
    if not rows:
        return None
    frame, raised = rows[0]
    return Answer(None if frame is None else bytes(frame), raised, repeated=True)


def forget_old(database: Database, now: float) -> None:
    """Nobody delivers again what was handled this long ago."""
    with database.transaction() as tx:
        tx.execute("DELETE FROM dragoman_handled WHERE handled_at < ?", (now - KEPT,))
