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

    origin: str
    """The query and the application that the task belongs to."""
    prefix: str
    """What the ids of its messages begin with."""
    name: str
    number: int


def this_attempt(application: str, channel: str) -> Attempt:
    """On a worker: which task this is. A query without an application goes by its own id.

    A query whose checkpoint was removed counts its batches anew, and has a new id. One batch of a query may
    be written to several channels.
    """
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    batch = (context and context.getLocalProperty("streaming.sql.batchId")) or "0"
    query = (context and context.getLocalProperty("sql.streaming.queryId")) or ""
    origin = "-".join(filter(None, (query, application)))
    return Attempt(origin, f"{application or query}/{batch}/{task}", f"{origin}/{channel}/{task}", int(batch))


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
