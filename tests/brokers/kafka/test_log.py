"""What is particular to reading Kafka's log by offset."""

from __future__ import annotations

import asyncio

from dragoman.core.broker import LogReader
from dragoman.core.message import Message
from dragoman.testing.brokers.history import messages_of
from tests.brokers.kafka.rigs import PATIENCE, connected, fresh, numbered, numbers
from tests.services.kafka import Kafka


def read_on(log: LogReader, channel: str, start: int, end: int) -> list[Message]:
    found: list[Message] = []
    while start < end:
        part = log.read(channel, 0, start, end)
        found += messages_of(channel, 0, part)
        assert part.next_offset > start
        start = part.next_offset
    return found


async def test_a_reader_that_was_at_the_end_finds_what_came_since(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        log = broker.log()
        found: list[Message] = []
        for start in range(0, 20, 5):
            await broker.publish(numbered(channel, 20)[start : start + 5])
            found += await asyncio.to_thread(read_on, log, channel, start, start + 5)
            # Meanwhile the driver notes that it has come to the end.
            await asyncio.sleep(0.3)
        assert numbers(found) == list(range(20))
        log.close()


async def test_reading_beyond_the_end_stops_at_the_end(kafka_server: Kafka) -> None:
    """What comes there later must not be passed over."""
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        await broker.publish(numbered(channel, 3))
        log = broker.log()
        assert (await asyncio.to_thread(log.read, channel, 0, 0, 3)).next_offset == 3
        beyond = await asyncio.to_thread(log.read, channel, 0, 3, 100)
        assert (beyond.count, beyond.next_offset) == (0, 3)
        log.close()


async def test_what_a_transaction_leaves_behind_its_messages_is_passed_over(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        await broker.transact(numbered(channel, 2))
        log = broker.log()
        async with asyncio.timeout(PATIENCE):
            # The commit is seen a moment after it was made.
            while (await asyncio.to_thread(log.partitions, channel))[0] != (0, 3):
                await asyncio.sleep(0.01)
        assert numbers(await asyncio.to_thread(read_on, log, channel, 0, 3)) == [0, 1]
        log.close()
