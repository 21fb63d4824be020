"""How the messages of one task reach the broker: once, or at least once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from pyspark import TaskContext

from dragoman.core.broker import Broker, Transactional
from dragoman.core.message import Message

SEND_AT_ONCE = 1_000


class Attempt(NamedTuple):
    """A try at one task of one batch. All tries of a task have the same name and number."""

    prefix: str
    """What the ids of its messages begin with."""
    name: str
    number: int


def this_attempt(application: str) -> Attempt:
    """On a worker: which task this is."""
    context = TaskContext.get()
    if context is None:
        return Attempt(f"{application}/0/0", f"{application}/0", 0)
    task = context.partitionId()
    batch = context.getLocalProperty("streaming.sql.batchId") or "0"
    # A query whose checkpoint was removed counts its batches anew, and has a new id.
    query = context.getLocalProperty("sql.streaming.queryId") or application
    return Attempt(f"{application}/{batch}/{task}", f"{query}/{task}", int(batch))


class AtLeastOnce:
    """Messages are sent as they come."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Message] = []
        self._sent = 0

    async def take(self, messages: Sequence[Message]) -> None:
        self._waiting += messages
        while len(self._waiting) >= SEND_AT_ONCE:
            await self._send(self._waiting[:SEND_AT_ONCE])
            del self._waiting[:SEND_AT_ONCE]

    async def _send(self, messages: Sequence[Message]) -> None:
        if messages:
            self._sent += len(await self._broker.publish(messages))

    async def finish(self) -> int:
        """How many were sent."""
        await self._send(self._waiting)
        return self._sent


class Once:
    """All messages in one transaction, unless an earlier try of the task was done with it.

    Asking for the mark shuts out an earlier try that is still under way.
    """

    def __init__(self, broker: Broker, attempt: Attempt) -> None:
        self._broker = cast(Transactional, broker)
        self._attempt = attempt
        self._waiting: list[Message] = []

    async def take(self, messages: Sequence[Message]) -> None:
        self._waiting += messages

    async def finish(self) -> int:
        """How many are there by now."""
        if self._waiting:
            name, number = self._attempt.name, self._attempt.number
            marked = await self._broker.marked(name)
            if marked is None or marked < number:
                await self._broker.transact(self._waiting, mark=(name, number))
        return len(self._waiting)
