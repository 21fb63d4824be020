"""What the tests of the Kafka adapter share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from dragoman.adapters.kafka import KafkaBroker
from dragoman.adapters.kafka.receiving import KafkaReceiver
from dragoman.core.channel import Channel
from dragoman.core.message import Message
from dragoman.testing.brokers.history import read_all
from tests.services.kafka import Kafka

PATIENCE = 60.0


@asynccontextmanager
async def connected(server: Kafka, options: str = "") -> AsyncIterator[KafkaBroker]:
    quick = "session.timeout.ms=6000&heartbeat.interval.ms=300&"
    if "group.protocol=consumer" in options:
        quick = ""
    broker = KafkaBroker(f"{server.url}?{quick}{options}".rstrip("&?"))
    await broker.connect()
    try:
        yield broker
    finally:
        await broker.close()


async def fresh(broker: KafkaBroker, partitions: int = 1, **settings: str) -> str:
    """A new channel."""
    name = f"kafka-{uuid4().hex}"
    await broker.create(Channel(name, partitions, settings=settings))
    return name


def numbered(channel: str, count: int, partition: int | None = None) -> list[Message]:
    return [Message(channel, b"%d" % number, partition=partition) for number in range(count)]


async def received(receiver: KafkaReceiver, count: int) -> list[Message]:
    """The next so many messages."""
    found: list[Message] = []
    while len(found) < count:
        some = await receiver.receive(count - len(found), PATIENCE)
        assert some, f"{len(found)} of {count} messages came"
        found += some
    return found


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.payload or b"-1") for message in messages]


async def logged(broker: KafkaBroker, channel: str, count: int) -> list[Message]:
    """The history of a channel, once it has so many messages: a commit is seen a moment after it was made."""
    log = broker.log()
    deadline = time.monotonic() + PATIENCE
    try:
        while len(found := read_all(log, channel)) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        return found
    finally:
        log.close()
