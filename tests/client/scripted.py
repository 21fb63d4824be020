"""A broker whose deliveries, failures and revocations a test decides one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dragoman.adapters.memory import MemoryBroker
from dragoman.core.broker import Acknowledgement, Subscription
from dragoman.core.errors import BrokerUnavailable, Revoked
from dragoman.core.message import Message, Position


class ScriptedBroker(MemoryBroker):
    """Publishing and channels as in memory; what is received comes from ``deliver``."""

    def __init__(self, acknowledgement: Acknowledgement = Acknowledgement.CUMULATIVE) -> None:
        super().__init__(f"memory://scripted-{id(self)}")
        self.capabilities = replace(MemoryBroker.capabilities, acknowledgement=acknowledgement)
        self.receivers: list[ScriptedReceiver] = []
        self.refuse_publish: set[str] = set()
        self.refused = 0

    async def subscribe(self, subscription: Subscription) -> ScriptedReceiver:  # type: ignore[override]
        receiver = ScriptedReceiver()
        self.receivers.append(receiver)
        return receiver

    @property
    def receiver(self) -> ScriptedReceiver:
        return self.receivers[-1]

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if any(message.channel in self.refuse_publish for message in messages):
            self.refused += 1
            raise BrokerUnavailable("Refused by the test.")
        return await super().publish(messages, delay)


class ScriptedReceiver:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[list[Message] | Exception] = asyncio.Queue()
        self.acknowledged: list[Message] = []
        self.released: list[tuple[Message, float]] = []
        self.revoked: set[int | None] = set()
        self.acknowledge_errors: list[Exception] = []
        self.extend_errors: list[Exception] = []
        self.limits: list[int] = []
        self.extended = 0
        self.closed = False

    def deliver(self, *messages: Message) -> None:
        self.queue.put_nowait(list(messages))

    def fail(self, error: Exception) -> None:
        self.queue.put_nowait(error)

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        self.limits.append(limit)
        try:
            async with asyncio.timeout(timeout):
                found = await self.queue.get()
        except TimeoutError:
            return []
        if isinstance(found, Exception):
            raise found
        if len(found) > limit:
            self.queue._queue.appendleft(found[limit:])  # type: ignore[attr-defined]
        return found[:limit]

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        if self.acknowledge_errors:
            raise self.acknowledge_errors.pop(0)
        self.acknowledged += [message for message in messages if message.offset not in self.revoked]
        if any(message.offset in self.revoked for message in messages):
            raise Revoked("Taken over.")

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        self.released += [(message, delay) for message in messages]

    def lost(self, message: Message) -> bool:
        return message.offset in self.revoked

    async def extend(self) -> None:
        self.extended += 1
        if self.extend_errors:
            raise self.extend_errors.pop(0)

    async def close(self) -> None:
        self.closed = True

    @property
    def offsets(self) -> list[int | None]:
        """What was acknowledged, in order."""
        return [message.offset for message in self.acknowledged]


def numbered(count: int, channel: str = "work", start: int = 0, key: str | None = None) -> list[Message]:
    """Messages of one partition, each with its offset as payload, and as its key unless one is given."""
    return [
        Message(channel, str(number).encode(), (key or str(number)).encode(), (), 0, number, 1_000)
        for number in range(start, start + count)
    ]
