"""Messages, acknowledgements and marks: all of them or none, also when the process is killed."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from dragoman.adapters.kafka import KafkaBroker, transacting
from dragoman.adapters.kafka.transacting import Transactor
from dragoman.core.broker import Subscription
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, EncodeError, Revoked
from dragoman.core.message import Message
from tests.brokers.kafka.refusing import refusing
from tests.brokers.kafka.rigs import PATIENCE, connected, fresh, logged, numbered, numbers, received
from tests.services.kafka import Kafka


async def test_messages_and_acknowledgements_are_one(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        source, target = await fresh(broker), await fresh(broker)
        await broker.publish(numbered(source, 5))
        first = await broker.subscribe(Subscription((source,), source))
        held = await received(first, 5)
        positions = await broker.transact(numbered(target, 3), first, held[:3])
        assert [position.offset for position in positions if position is not None] == [0, 1, 2]
        assert [lag.behind for lag in await broker.lag(source, source)] == [2]
        await first.close()
        second = await broker.subscribe(Subscription((source,), source))
        assert numbers(await received(second, 2)) == [3, 4]
        reader = await broker.subscribe(Subscription((target,), target))
        assert numbers(await received(reader, 3)) == [0, 1, 2]


async def test_a_transaction_that_fails_leaves_nothing_behind(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        source, target = await fresh(broker), await fresh(broker)
        await broker.publish(numbered(source, 1))
        receiver = await broker.subscribe(Subscription((source,), source))
        held = await received(receiver, 1)
        too_large = Message(target, b"x" * 2_000_000)
        with pytest.raises(EncodeError):
            await broker.transact([*numbered(target, 3), too_large], receiver, held, (source, 1))
        assert await broker.marked(source) is None
        assert [lag.behind for lag in await broker.lag(source, source)] == [1]
        await broker.transact(numbered(target, 2), receiver, held, (source, 1))
        assert numbers(await logged(broker, target, 2)) == [0, 1]


async def test_a_transaction_with_a_batch_that_was_refused_leaves_nothing_behind(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch of it was not refused: the driver takes the first as stored, too."""
    async with refusing(kafka_server) as way, connected(kafka_server) as beside:
        channel = await fresh(beside)
        produce, loop = Transactor._produce, asyncio.get_running_loop()

        def in_two_batches(transactor: Transactor, message: Message, report: Callable[..., None]) -> None:
            produce(transactor, message, report)
            asyncio.run_coroutine_threadsafe(way.refused.wait(), loop).result(PATIENCE)

        monkeypatch.setattr(Transactor, "_produce", in_two_batches)
        broker = KafkaBroker(way.url)
        await broker.connect()
        try:
            with pytest.raises(BrokerUnavailable, match="may be lost"):
                await broker.transact(numbered(channel, 2))
            await broker.transact(numbered(channel, 3))
        finally:
            await broker.close()
        assert numbers(await logged(beside, channel, 3)) == [0, 1, 2]


async def test_a_mark_is_recorded_with_its_transaction(kafka_server: Kafka) -> None:
    name = f"a job / with any name {uuid4().hex}"
    async with connected(kafka_server) as broker:
        target = await fresh(broker)
        assert await broker.marked(name) is None
        await broker.transact(numbered(target, 2), mark=(name, 0))
        assert await broker.marked(name) == 0
        await broker.transact(numbered(target, 2), mark=(name, 7))
        assert await broker.marked(name) == 7
        with pytest.raises(ConfigurationError):
            await broker.transact(numbered(target, 2), mark=(name, -1))
    async with connected(kafka_server, "delivery.timeout.ms=120000") as another:
        assert await another.marked(name) == 7


async def test_whoever_asks_for_a_mark_fences_off_whoever_had_it(kafka_server: Kafka) -> None:
    name = uuid4().hex
    async with connected(kafka_server) as old, connected(kafka_server) as new:
        target = await fresh(old)
        await old.transact(numbered(target, 1), mark=(name, 1))
        assert await new.marked(name) == 1
        with pytest.raises(Revoked):
            await old.transact(numbered(target, 1), mark=(name, 2))
        assert await new.marked(name) == 1
        await new.transact(numbered(target, 1), mark=(name, 2))
        assert len(await logged(new, target, 2)) == 2


async def test_what_another_member_has_by_now_cannot_be_acknowledged(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        source, target = await fresh(broker), await fresh(broker)
        await broker.publish(numbered(source, 1))
        receiver = await broker.subscribe(Subscription((source,), source))
        held = await received(receiver, 1)
        await receiver.close()
        with pytest.raises(Revoked):
            await broker.transact(numbered(target, 1), receiver, held)
        assert await logged(broker, target, 0) == []


async def test_a_group_can_be_joined_while_the_transaction_of_a_dead_member_is_open(
    kafka_server: Kafka,
) -> None:
    """The server ends it after half a minute, and gives no position of the group before."""
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        await broker.publish(numbered(channel, 3))
        settings = {"bootstrap.servers": kafka_server.url.removeprefix("kafka://")}
        member = Consumer({**settings, "group.id": channel})
        dead = Producer({**settings, "transactional.id": channel})

        def leave_open() -> None:
            dead.init_transactions(PATIENCE)
            dead.begin_transaction()
            position = TopicPartition(channel, 0, 2)
            dead.send_offsets_to_transaction([position], member.consumer_group_metadata(), PATIENCE)

        await asyncio.to_thread(leave_open)
        try:
            async with asyncio.timeout(PATIENCE / 3):
                receiver = await broker.subscribe(Subscription((channel,), channel))
        finally:
            await asyncio.to_thread(dead.abort_transaction, PATIENCE)
            member.close()
        assert [message.offset for message in await received(receiver, 3)] == [0, 1, 2]


async def move(server: Kafka, source: str, target: str, until: int) -> None:
    """Run the mover until it has begun this one, and kill it there."""
    url = f"{server.url}?session.timeout.ms=3000&heartbeat.interval.ms=300&linger.ms=0"
    command = [sys.executable, "-m", "tests.brokers.kafka.transacting", url, source, target, source]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        while True:
            line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().split()
            assert line, "the mover ended"
            if int(line[1]) >= until:
                break
    finally:
        process.kill()
        await process.communicate()


async def test_a_process_killed_in_the_middle_moves_everything_once(kafka_server: Kafka) -> None:
    count = 60
    async with connected(kafka_server) as broker:
        source, target = await fresh(broker), await fresh(broker)
        await broker.publish(numbered(source, count))
        for stop in (10, count - 1):
            await move(kafka_server, source, target, stop)
        await drain(broker, source, target)
        moved = Counter(numbers(await logged(broker, target, 2 * count)))
        assert moved == dict.fromkeys(range(count), 2)
        assert await broker.marked(source) == count - 1


async def drain(broker: KafkaBroker, source: str, target: str) -> None:
    """What the killed ones left."""
    await broker.marked(source)
    receiver = await broker.subscribe(Subscription((source,), source))
    while sum(lag.behind for lag in await broker.lag(source, source)):
        for message in await receiver.receive(1, 1.0):
            moved = [Message(target, message.payload), Message(target, message.payload)]
            with contextlib.suppress(Revoked):
                await broker.transact(moved, receiver, [message], (source, message.offset or 0))


async def test_a_transaction_goes_to_its_end_however_often_it_is_cancelled() -> None:
    """Its producer must not be used by the next one before."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go.wait()

    task = asyncio.create_task(transacting._to_its_end(work()))
    await begun.wait()
    for _ in range(3):
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.01)
        assert not done
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
