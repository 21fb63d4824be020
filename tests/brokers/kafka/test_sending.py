"""What is particular to sending to Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import OffsetSpec

from dragoman.adapters.kafka import KafkaBroker, sending
from dragoman.adapters.kafka.administration import Administration
from dragoman.adapters.kafka.configuration import read_settings
from dragoman.adapters.kafka.faults import faults
from dragoman.adapters.kafka.reading import Positions
from dragoman.adapters.kafka.sending import Sender
from dragoman.client.history import history
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, DragomanError
from dragoman.core.message import Message, Position
from dragoman.core.run import Alike
from tests.brokers.kafka.refusing import refusing
from tests.brokers.kafka.rigs import PATIENCE, connected, fresh, logged, numbered, numbers
from tests.services.kafka import Kafka


async def test_whoever_is_publishing_when_the_broker_closes_is_told(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not answer, and nobody would wait for its answer any more."""
    with kafka_server.proxy() as proxy:
        broker = KafkaBroker(proxy.url)
        await broker.connect()
        channel = await fresh(broker)
        await broker.publish([Message(channel, b"there")])
        proxy.stall()
        monkeypatch.setattr(sending, "TIMEOUT", 0.2)
        publishing = asyncio.create_task(broker.publish([Message(channel, b"under way")]))
        await asyncio.sleep(0)
        await broker.close()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(BrokerUnavailable):
                await publishing


@pytest.mark.parametrize("way", ["publish", "transact"])
@pytest.mark.parametrize("size", [1, 200])
async def test_whoever_asks_about_a_channel_when_the_broker_closes_is_told(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch, size: int, way: str
) -> None:
    """Nobody would bring the reports of what it publishes then."""
    learn, asked, go = Sender._learn, threading.Event(), threading.Event()

    def wait(sender: Sender, channel: str) -> Mapping[int, object]:
        asked.set()
        go.wait(PATIENCE)
        return learn(sender, channel)

    monkeypatch.setattr(Sender, "_learn", wait)
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    channel = await fresh(broker)
    publishing = asyncio.create_task(getattr(broker, way)([Message(channel, b"late")] * size))
    await asyncio.to_thread(asked.wait, PATIENCE)
    await broker.close()
    go.set()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BrokerUnavailable):
            await publishing


@pytest.mark.parametrize("size", [1, 200])
async def test_what_is_handed_over_while_the_broker_closes_is_waited_for(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    produce, begun, closed = Sender._produce, asyncio.Event(), asyncio.Event()

    async def wait(
        sender: Sender, messages: Sequence[Message], reports: Sequence[Callable[..., None]]
    ) -> None:
        begun.set()
        await closed.wait()
        await produce(sender, messages, reports)

    monkeypatch.setattr(Sender, "_produce", wait)
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    channel = await fresh(broker)
    publishing = asyncio.create_task(broker.publish([Message(channel, b"late")] * size))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        await broker.close()
        closed.set()
        assert len(await publishing) == size


class Broken:
    """A producer that librdkafka has declared broken: it takes nothing more."""

    def __init__(self, real: Producer) -> None:
        self._real = real

    def produce(self, *arguments: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@pytest.mark.parametrize("size", [1, 200])
async def test_a_producer_that_is_broken_for_good_is_replaced(kafka_server: Kafka, size: int) -> None:
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    channel = await fresh(broker)
    messages = [Message(channel, b"there")] * size
    try:
        await broker.publish(messages)
        sender = broker._sender
        assert sender is not None
        sender._producer = Broken(sender._producer)
        with pytest.raises(DragomanError):
            await broker.publish(messages)
        async with asyncio.timeout(PATIENCE):
            assert len(await broker.publish(messages)) == size
    finally:
        await broker.close()


async def test_each_message_of_many_has_its_own_position(kafka_server: Kafka) -> None:
    """Large and small batches at once, to several partitions, with and without keys."""
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    channel = await fresh(broker, 3)
    batches: list[Sequence[Message]] = [
        Alike(channel, [b"alike %d %d" % (batch, number) for number in range(500)]) for batch in range(4)
    ]
    for batch in range(4):
        batches.append([Message(channel, b"keyed %d %d" % (batch, n), b"%d" % n) for n in range(300)])
    batches += [[Message(channel, b"single %d" % number)] for number in range(20)]
    try:
        for _ in range(2):
            found = await asyncio.gather(*(broker.publish(batch) for batch in batches))
            stored = {
                Position(channel, each.partition or 0, each.offset or 0): each.payload
                async for each in history(broker, channel)
            }
            for batch, positions in zip(batches, found, strict=True):
                payloads = [message.payload for message in batch]
                assert [stored[place] for place in positions if place is not None] == payloads
    finally:
        await broker.close()


async def test_a_batch_that_fails_leaves_the_next_one_alone(kafka_server: Kafka) -> None:
    """What waits for reports is used again, but not before all of them have come."""
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    channel = await fresh(broker)
    try:
        for _ in range(3):
            too_large = Alike(channel, [b"small", bytes(2_000_000), b"small"])
            with pytest.raises(DragomanError):
                await broker.publish(too_large)
            positions = await broker.publish(Alike(channel, [b"good"] * 200))
            assert len({position.offset for position in positions if position is not None}) == 200
    finally:
        await broker.close()


async def test_to_publish_nothing_is_to_ask_for_nothing(kafka_server: Kafka) -> None:
    broker = KafkaBroker(kafka_server.url)
    await broker.connect()
    try:
        assert not await broker.publish(Alike("nowhere", []))
    finally:
        await broker.close()


async def test_what_the_queue_has_no_room_for_yet_is_sent_in_its_turn(kafka_server: Kafka) -> None:
    broker = KafkaBroker(f"{kafka_server.url}?queue.buffering.max.messages=150")
    await broker.connect()
    channel = await fresh(broker)
    payloads = [b"%d" % number for number in range(1000)]
    try:
        positions = await broker.publish(Alike(channel, payloads))
        assert positions == [Position(channel, 0, number) for number in range(1000)]
        assert [each.payload async for each in history(broker, channel)] == payloads
    finally:
        await broker.close()


def test_positions_are_a_list_to_whoever_looks() -> None:
    expected = [Position("c", 1, offset) for offset in range(3)]
    positions = Positions(["c"] * 3, [1] * 3, range(3))
    assert len(positions) == 3
    assert positions == expected
    assert (len(positions), positions[-1], positions[1:]) == (3, expected[-1], expected[1:])


async def test_a_batch_that_the_server_refused_is_not_lost_behind_the_next_one(kafka_server: Kafka) -> None:
    """A leader that does not know the producer takes the second of its batches without the first."""
    async with refusing(kafka_server) as way, connected(kafka_server) as beside:
        channel = await fresh(beside)
        broker = KafkaBroker(way.url)
        await broker.connect()
        try:
            early = asyncio.create_task(broker.publish(numbered(channel, 1)))
            async with asyncio.timeout(PATIENCE):
                await way.refused.wait()
                late = await broker.publish(numbered(channel, 3))
                with pytest.raises(BrokerUnavailable, match="may be lost"):
                    await early
                await broker.publish(numbered(channel, 1))
        finally:
            await broker.close()
        assert [each.offset for each in late if each is not None] == [0, 1, 2]
        assert numbers(await logged(beside, channel, 4)) == [0, 1, 2, 0]


async def test_the_first_messages_wait_until_leaders_do_their_work(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program has just made the channel. One asks for all who publish."""
    serves, learn = Administration._serves, Sender._learn
    answers, asked = iter([False, False, False]), 0

    def late(self: Administration, channel: str, partitions: Collection[int], timeout: float) -> bool:
        return next(answers, True) and serves(self, channel, partitions, timeout)

    def counted(sender: Sender, channel: str) -> Mapping[int, object]:
        nonlocal asked
        asked += 1
        return learn(sender, channel)

    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        monkeypatch.setattr(Administration, "_serves", late)
        monkeypatch.setattr(Sender, "_learn", counted)
        await asyncio.gather(*(broker.publish(numbered(channel, 1)) for _ in range(10)))
        assert next(answers, None) is None
        await broker.publish(numbered(channel, 1))
        assert asked == 1


async def test_a_leader_that_stays_away_keeps_nobody_from_publishing_to_others(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker, 2)
        monkeypatch.setattr(Administration, "_serves", lambda *_: False)
        monkeypatch.setattr(sending, "_GETTING_READY", 0.1)
        assert len(await broker.publish(numbered(channel, 3, partition=1))) == 3


async def test_whoever_asks_late_about_a_channel_is_not_told_what_was_true_before(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, asked, go = Sender._learn, threading.Event(), threading.Event()

    def slow(sender: Sender, channel: str) -> Mapping[int, object]:
        try:
            return learn(sender, channel)
        finally:
            asked.set()
            go.wait(PATIENCE)

    monkeypatch.setattr(Sender, "_learn", slow)
    channel = f"kafka-{uuid4().hex}"
    async with connected(kafka_server) as broker:
        early = asyncio.create_task(broker.publish(numbered(channel, 1)))
        await asyncio.to_thread(asked.wait, PATIENCE)
        await broker.create(Channel(channel))
        late = asyncio.create_task(broker.publish(numbered(channel, 1)))
        await asyncio.sleep(0)
        go.set()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ChannelNotFound):
                await early
            assert len(await late) == 1


async def test_a_leader_that_does_not_answer_has_no_offset(kafka_server: Kafka) -> None:
    """The driver gives one for it, which is none, and no error."""
    with kafka_server.proxy() as proxy:
        administration = Administration(read_settings(proxy.url).common)
        channel = f"kafka-{uuid4().hex}"
        await asyncio.to_thread(administration.create, Channel(channel))
        proxy.stall()
        with pytest.raises(BrokerUnavailable):
            await asyncio.to_thread(administration.await_leaders, channel, [0], 0.3)
        with pytest.raises(BrokerUnavailable):
            await asyncio.to_thread(ask, administration, channel)
        proxy.restore()
        assert await asyncio.to_thread(administration.earliest, [(channel, 0)]) == {(channel, 0): 0}


def ask(administration: Administration, channel: str) -> None:
    with faults(channel=channel):
        administration._ask_offsets({(channel, 0): OffsetSpec.earliest()}, 0.3)
