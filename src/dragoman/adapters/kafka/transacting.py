"""All or nothing: messages, acknowledgements and a mark in one of Kafka's transactions."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from dragoman.adapters.kafka.administration import (
    INTERNAL,
    TIMEOUT,
    Administration,
    onlooker_settings,
    patiently,
    stored_offsets,
)
from dragoman.adapters.kafka.faults import faults, translated, unconfirmed
from dragoman.adapters.kafka.receiving import UNSETTLED, KafkaReceiver
from dragoman.adapters.kafka.sending import arguments_of, producer_settings
from dragoman.core.broker import revoked
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, Revoked
from dragoman.core.message import Message, Position

R = TypeVar("R")

_LIFETIME = 30_000
"""Milliseconds after which the server ends a transaction whose process has died."""


class Transactor:
    """One transactional producer. With a name it is the only one of that name: an earlier one is fenced off.

    Marks are committed offsets of a group of that name, so they stand or fall with the transaction. All calls
    block, one at a time.
    """

    def __init__(self, settings: Mapping[str, Any], name: str | None) -> None:
        self.lock = asyncio.Lock()
        self.broken = False
        identity = f"dragoman-{secrets.token_hex(8) if name is None else _digest(name)}"
        with faults(name=name):
            self._producer = Producer({**_limited(settings), "transactional.id": identity})
            self._marks = None if name is None else Consumer(onlooker_settings(settings, identity))
            self._repeat(self._producer.init_transactions)

    def marked(self) -> int | None:
        """The number last recorded. Nobody else can record one any more."""
        assert self._marks is not None
        marks = self._marks
        with faults():
            stored = patiently(
                lambda: stored_offsets(marks.committed([TopicPartition(INTERNAL, 0)], timeout=TIMEOUT))
            )
        return stored.get((INTERNAL, 0))

    def run(
        self,
        messages: Sequence[Message],
        acknowledged: tuple[list[Any], Any] | None,
        number: int | None,
    ) -> Sequence[Position | None]:
        positions: list[Position | None] = [None] * len(messages)
        errors: list[KafkaError] = []
        try:
            self._producer.begin_transaction()
            for index, message in enumerate(messages):
                self._produce(message, partial(_report, positions, errors, index))
            if acknowledged is not None:
                self._repeat(partial(self._producer.send_offsets_to_transaction, *acknowledged))
            if number is not None and self._marks is not None:
                mark = [TopicPartition(INTERNAL, 0, number)]
                metadata = self._marks.consumer_group_metadata()
                self._repeat(partial(self._producer.send_offsets_to_transaction, mark, metadata))
            # Each has a time limit of its own.
            while self._producer.flush(TIMEOUT):
                pass
            if errors:
                raise KafkaException(errors[0])
            if None in positions:
                lost = messages[positions.index(None)]
                raise unconfirmed(lost.channel, "The transaction is taken back: do it again.")
            self._repeat(self._producer.commit_transaction)
        except KafkaException as error:
            self._give_up(error.args[0])
            raise translated(error.args[0], channel=messages[0].channel if messages else None) from error
        except BaseException:
            self._give_up(None)
            raise
        return positions

    def _produce(self, message: Message, report: Callable[..., None]) -> None:
        while True:
            try:
                self._producer.produce(*arguments_of(message, report))
                return
            except BufferError:
                self._producer.poll(0.01)

    def _repeat(self, call: Callable[..., Any]) -> None:
        """Until it is done or cannot be: calls of a transaction may be repeated where Kafka says so."""
        deadline = time.monotonic() + 2 * TIMEOUT
        while True:
            try:
                call(TIMEOUT)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _give_up(self, error: KafkaError | None) -> None:
        """Take everything back. A producer that cannot do that is not used again."""
        if error is not None and error.fatal():
            self.broken = True
            return
        try:
            self._repeat(self._producer.abort_transaction)
        except KafkaException:
            self.broken = True

    def close(self) -> None:
        if self._marks is not None:
            self._marks.close()


class Transactions:
    """The transactional producers of one connection: one for each name of marks, one for all the rest."""

    def __init__(self, settings: Mapping[str, Any], administration: Administration) -> None:
        self._settings = settings
        self._administration = administration
        self._opened: dict[str | None, Transactor] = {}
        self._opening = asyncio.Lock()

    async def transact(
        self,
        messages: Sequence[Message],
        receiver: KafkaReceiver | None,
        done: Sequence[Message],
        mark: tuple[str, int] | None,
    ) -> Sequence[Position | None]:
        name, number = mark or (None, None)
        if number is not None and number < 0:
            raise ConfigurationError(f"A mark cannot be {number}.", next="Use a number from 0 on.", mark=name)
        transactor = await self._open(name)
        deadline = time.monotonic() + TIMEOUT
        while True:
            for message in done:
                if receiver is None or receiver.lost(message):
                    raise revoked(message, "" if receiver is None else receiver.group)
            try:
                async with transactor.lock:
                    return await _to_its_end(self._run(transactor, messages, receiver, done, number))
            except Revoked as error:
                if not _unsettled(error) or time.monotonic() > deadline:
                    raise
                # Partitions are being dealt out: soon we know whether these are still ours.
                await asyncio.sleep(0.1)

    async def _run(
        self,
        transactor: Transactor,
        messages: Sequence[Message],
        receiver: KafkaReceiver | None,
        done: Sequence[Message],
        number: int | None,
    ) -> Sequence[Position | None]:
        acknowledged = None
        if receiver is not None and (offsets := receiver.positions_after(done)):
            acknowledged = offsets, await receiver.group_metadata()
        positions = await asyncio.to_thread(transactor.run, messages, acknowledged, number)
        if receiver is not None:
            receiver.finish(done)
        return positions

    async def marked(self, name: str) -> int | None:
        transactor = await self._open(name)
        async with transactor.lock:
            return await asyncio.to_thread(transactor.marked)

    async def _open(self, name: str | None) -> Transactor:
        async with self._opening:
            found = self._opened.get(name)
            if found is None or found.broken:
                if found is not None:
                    del self._opened[name]
                    if name is not None:
                        raise _fenced(name)
                found = self._opened[name] = await asyncio.to_thread(self._make, name)
            return found

    def _make(self, name: str | None) -> Transactor:
        if name is not None:
            self._administration.ensure_internal()
        return Transactor(self._settings, name)

    async def close(self) -> None:
        for transactor in self._opened.values():
            async with transactor.lock:
                await asyncio.to_thread(transactor.close)
        self._opened.clear()


async def _to_its_end(work: Coroutine[Any, Any, R]) -> R:
    """Also when whoever asked has gone: a transaction cannot be left half way."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Whoever wants this ended may say so more than once.
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


def _unsettled(error: Revoked) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in UNSETTLED


def _report(
    positions: list[Position | None],
    errors: list[KafkaError],
    index: int,
    error: KafkaError | None,
    message: Any,
) -> None:
    if error is not None:
        errors.append(error)
    elif message.offset() is not None:
        positions[index] = Position(message.topic(), message.partition(), message.offset())


def _digest(name: str) -> str:
    """Names may be long and have any characters; Kafka's may not."""
    return hashlib.sha256(name.encode()).hexdigest()[:40]


def _limited(settings: Mapping[str, Any]) -> dict[str, Any]:
    """No message may outlive its transaction."""
    lifetime = settings.get("transaction.timeout.ms", _LIFETIME)
    limits = {
        "transaction.timeout.ms": lifetime,
        "delivery.timeout.ms": min(settings.get("delivery.timeout.ms", lifetime), lifetime),
    }
    return {**producer_settings(settings), **limits}


def _fenced(name: str) -> BrokerUnavailable:
    return BrokerUnavailable(
        "The transactions of this name broke off, or another process has taken them over.",
        next="Ask marked() what was done, and go on from there.",
        mark=name,
    )
