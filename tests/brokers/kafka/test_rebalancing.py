"""Partitions that move while messages are handled, by both of Kafka's protocols, and slow handlers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from dragoman.adapters.kafka import broker as broker_module
from dragoman.adapters.kafka import receiving
from dragoman.adapters.kafka.receiving import KafkaReceiver
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, Revoked
from dragoman.core.message import Message
from tests.brokers.kafka.rigs import PATIENCE, connected, fresh, numbered, numbers, received
from tests.services.kafka import Kafka

PROTOCOLS = ["classic", "consumer"]


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


def places(receiver: KafkaReceiver) -> set[int | None]:
    return {place[1] for place in receiver._holdings}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_is_in_flight_is_finished_before_its_partition_moves(
    kafka_server: Kafka, protocol: str
) -> None:
    options = f"group.protocol={protocol}&handover=60"
    async with connected(kafka_server, options) as broker, connected(kafka_server, options) as other:
        channel = await fresh(broker, partitions=2)
        subscription = Subscription((channel,), channel)
        first = await broker.subscribe(subscription)
        await broker.publish([*numbered(channel, 3, partition=0), *numbered(channel, 3, partition=1)])
        held = await received(first, 6)
        second = await other.subscribe(subscription)
        await until(lambda: any(holding.leaving for holding in first._holdings.values()))
        assert not any(first.lost(message) for message in held)
        await first.acknowledge(list({message.partition: message for message in held}.values()))
        await until(lambda: len(places(first)) == len(places(second)) == 1)
        assert list(await second.receive(10, 0.3)) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_takes_too_long_goes_to_the_new_owner(kafka_server: Kafka, protocol: str) -> None:
    options = f"group.protocol={protocol}&handover=0.1"
    async with connected(kafka_server, options) as broker, connected(kafka_server, options) as other:
        channel = await fresh(broker, partitions=2)
        subscription = Subscription((channel,), channel)
        first = await broker.subscribe(subscription)
        await broker.publish([*numbered(channel, 2, partition=0), *numbered(channel, 2, partition=1)])
        held = await received(first, 4)
        second = await other.subscribe(subscription)
        moved = await received(second, 2)
        [partition] = {message.partition for message in moved}
        gone = [message for message in held if message.partition == partition]
        kept = [message for message in held if message.partition != partition]
        assert all(first.lost(message) for message in gone)
        assert not any(first.lost(message) for message in kept)
        with pytest.raises(Revoked):
            await first.acknowledge([gone[-1], kept[-1]])
        await second.acknowledge([moved[-1]])
        assert sum(lag.behind for lag in await broker.lag(channel, channel)) == 0


async def test_a_handler_slower_than_the_longest_poll_interval_keeps_its_partition(
    kafka_server: Kafka,
) -> None:
    options = "max.poll.interval.ms=6000&session.timeout.ms=6000"
    async with connected(kafka_server, options) as broker:
        channel = await fresh(broker)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        await broker.publish(numbered(channel, 2))
        held = await received(receiver, 2)
        await asyncio.sleep(7.5)
        assert not any(receiver.lost(message) for message in held)
        await receiver.acknowledge(held[-1:])
        assert sum(lag.behind for lag in await broker.lag(channel, channel)) == 0


async def test_what_nobody_takes_waits_at_the_server(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "ROOM", 100)
    monkeypatch.setattr(receiving, "_BATCH", 20)
    monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
    async with connected(kafka_server) as broker:
        channel = await fresh(broker, partitions=2)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        await broker.publish(numbered(channel, 2000))
        await until(lambda: any(holding.paused for holding in receiver._holdings.values()))
        assert receiver._filled() < 2
        found = sorted(numbers(await received(receiver, 2000)))
        assert found == list(range(2000))


async def test_a_partition_that_nobody_takes_does_not_stop_the_others(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "ROOM", 100)
    monkeypatch.setattr(receiving, "_BATCH", 20)
    monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
    async with connected(kafka_server) as broker:
        channel = await fresh(broker, partitions=2)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        receiver.hold({(channel, 0)})
        await broker.publish([Message(channel, b"%d" % number, partition=0) for number in range(1000)])
        await until(lambda: any(holding.paused for holding in receiver._holdings.values()))
        assert receiver._filled() <= 0.5
        others = range(1000, 2000)
        await broker.publish([Message(channel, b"%d" % number, partition=1) for number in others])
        assert sorted(numbers(await received(receiver, 1000))) == list(others)
        receiver.hold(())
        assert numbers(await received(receiver, 1000)) == list(range(1000))


async def test_large_messages_are_read_ahead_within_the_limit_on_bytes(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
    size, limit = 100_000, 4_000_000
    async with connected(kafka_server, f"read_ahead_bytes={limit}") as broker:
        channel = await fresh(broker, partitions=2)
        payload = os.urandom(size)
        for partition in (0, 1):
            await broker.publish([Message(channel, payload, b"%d" % n, (), partition) for n in range(100)])
        receiver = await broker.subscribe(Subscription((channel,), channel))
        await until(lambda: any(holding.paused for holding in receiver._holdings.values()))
        assert queued(receiver) <= limit
        found: list[Message] = []
        while len(found) < 200:
            found += await received(receiver, 1)
            assert queued(receiver) <= limit
        for partition in (0, 1):
            assert [int(each.key or b"") for each in found if each.partition == partition] == list(range(100))


async def test_a_partition_full_of_large_messages_does_not_stop_the_others(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
    limit = 4_000_000
    async with connected(kafka_server, f"read_ahead_bytes={limit}") as broker:
        channel = await fresh(broker, partitions=3)
        payload = os.urandom(100_000)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        receiver.hold({(channel, 0), (channel, 1)})
        for partition in (0, 1):
            await broker.publish([Message(channel, payload, b"%d" % n, (), partition) for n in range(60)])
            await until(lambda count=partition + 1: full(receiver) == count)
        for n in range(60):
            await broker.publish([Message(channel, payload, b"%d" % n, (), 2)])
            [message] = await received(receiver, 1)
            assert (message.partition, message.key) == (2, b"%d" % n)
            assert queued(receiver) <= limit
        receiver.hold(())
        found = await received(receiver, 120)
        for partition in (0, 1):
            assert [int(each.key or b"") for each in found if each.partition == partition] == list(range(60))


def full(receiver: KafkaReceiver) -> int:
    with receiver._changed:
        return sum(holding.full for holding in receiver._holdings.values())


def queued(receiver: KafkaReceiver) -> int:
    with receiver._changed:
        runs = [run for holding in receiver._holdings.values() for run in holding.queue]
        return sum(len(payload or b"") for run in runs for payload in run.payloads)


async def test_subscriptions_of_one_connection_share_the_room_for_reading_ahead(kafka_server: Kafka) -> None:
    async with connected(kafka_server, "read_ahead_bytes=1000") as broker:
        channel = await fresh(broker)
        first = await broker.subscribe(Subscription((channel,), channel))
        assert first._room() == 500
        second = await broker.subscribe(Subscription((channel,), f"{channel}-other"))
        assert first._room() == second._room() == 250
        await second.close()
        assert first._room() == 500


async def test_messages_larger_than_the_room_for_reading_ahead_are_delivered(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
    async with connected(kafka_server, "read_ahead_bytes=1000") as broker:
        channel = await fresh(broker, partitions=2)
        payloads = [b"%d" % number + b"." * 200_000 for number in range(20)]
        await broker.publish([Message(channel, each, partition=at % 2) for at, each in enumerate(payloads)])
        receiver = await broker.subscribe(Subscription((channel,), channel))
        found = await received(receiver, 20)
        assert sorted(each.payload or b"" for each in found) == sorted(payloads)
        await receiver.acknowledge(list({each.partition: each for each in found}.values()))
        assert sum(lag.behind for lag in await broker.lag(channel, channel)) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_paused_partition_that_moves_away_and_comes_back_is_delivered(
    kafka_server: Kafka, protocol: str
) -> None:
    options = f"group.protocol={protocol}&handover=0.1"
    async with connected(kafka_server, options) as broker, connected(kafka_server, options) as other:
        channel = await fresh(broker, partitions=2)
        subscription = Subscription((channel,), channel)
        first = await broker.subscribe(subscription)
        for partition in (0, 1):
            await broker.publish([Message(channel, b"%d" % n, partition=partition) for n in range(20)])
        held = await received(first, 40)
        await first.release([next(one for one in held if one.partition == p) for p in (0, 1)], 600.0)
        await until(lambda: all(holding.paused for holding in first._holdings.values()))
        second = await other.subscribe(subscription)
        await until(lambda: len(places(first)) == 1)
        [moved] = {0, 1} - places(first)
        await second.close()
        await until(lambda: len(places(first)) == 2)
        again = await received(first, 20)
        assert {message.partition for message in again} == {moved}
        assert numbers(again) == list(range(20))


async def test_first_messages_that_fill_the_room_do_not_slow_the_others_down(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_FULL_FOR", 600.0)
    async with connected(kafka_server, "read_ahead_bytes=400000") as broker:
        channel = await fresh(broker, partitions=2)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        receiver.hold({(channel, 0)})
        monkeypatch.setattr(receiving, "_FULL_FOR", 0.05)
        await broker.publish([Message(channel, bytes(300_000), partition=0) for _ in range(3)])
        await until(lambda: any(holding.paused for holding in receiver._holdings.values()))
        monkeypatch.setattr(receiving, "_FULL_FOR", 600.0)
        for number in range(20):
            await broker.publish([Message(channel, b"%d" % number, partition=1)])
            assert numbers(await received(receiver, 1)) == [number]


async def test_a_delay_holds_up_one_partition_only(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker, partitions=2)
        receiver = await broker.subscribe(Subscription((channel,), channel))
        await broker.publish([Message(channel, b"0", partition=0), Message(channel, b"1", partition=1)])
        held = await received(receiver, 2)
        late = next(message for message in held if message.partition == 0)
        released = time.monotonic()
        await receiver.release([late], delay=1.0)
        await broker.publish([Message(channel, b"2", partition=0), Message(channel, b"3", partition=1)])
        [other] = await received(receiver, 1)
        assert other.partition == 1 or time.monotonic() - released >= 1.0
        again = [message for message in [other, *await received(receiver, 2)] if message.partition == 0]
        assert numbers(again) == [0, 2]
        assert [message.attempt for message in again] == [2, 1]
        assert time.monotonic() - released >= 1.0


async def test_the_owner_of_a_failover_group_finds_new_partitions(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.adapters.kafka.ownership._LOOK_EVERY", 0.2)
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        receiver = await broker.subscribe(Subscription((channel,), channel, sharing=Sharing.FAILOVER))
        await broker.publish(numbered(channel, 1))
        await received(receiver, 1)
        await broker.alter(Channel(channel, 3))
        await broker.publish(numbered(channel, 2, partition=2))
        assert numbers(await received(receiver, 2)) == [0, 1]


@pytest.mark.parametrize("options", ["session.timeout.ms=45000", "group.protocol=consumer"])
async def test_a_member_that_leaves_while_it_joins_is_waited_for_by_nobody(
    kafka_server: Kafka, options: str
) -> None:
    """The server would keep its partitions for it until its session is over, which takes longer than this."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{kafka_server.port}"})

    def members(group: str) -> list[object]:
        return list(admin.describe_consumer_groups([group])[group].result().members)

    async with connected(kafka_server, options) as broker:
        channels = [await fresh(broker) for _ in range(5)]
        stays = await broker.subscribe(Subscription((channels[0],), "stays"))
        await until(lambda: bool(places(stays)))
        for channel in channels:
            await (await broker.subscribe(Subscription((channel,), channel))).close()
        async with asyncio.timeout(20):
            for channel in channels:
                while await asyncio.to_thread(members, channel):
                    await asyncio.sleep(0.05)


STRANGER = """
import os, signal, sys
from confluent_kafka import Consumer

server, group, assignment = sys.argv[1:]
settings = {"bootstrap.servers": server, "group.id": group, "partition.assignment.strategy": assignment}
consumer = Consumer(settings)
consumer.subscribe([group])
while not consumer.assignment():
    consumer.poll(0.1)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        pytest.param("range", ConfigurationError, id="a member that shares out by other rules"),
        pytest.param("cooperative-sticky", BrokerUnavailable, id="a member that hangs"),
    ],
)
async def test_who_wants_an_exclusive_group_is_told_what_is_in_the_way(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch, assignment: str, expected: type[Exception]
) -> None:
    monkeypatch.setattr(broker_module, "SETTLING", 3.0)
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        address = kafka_server.url.removeprefix("kafka://")
        stranger = subprocess.Popen([sys.executable, "-c", STRANGER, address, channel, assignment])
        try:
            await asyncio.to_thread(os.waitid, os.P_PID, stranger.pid, os.WSTOPPED)
            with pytest.raises(expected):
                await broker.subscribe(Subscription((channel,), channel, sharing=Sharing.EXCLUSIVE))
        finally:
            stranger.kill()
            stranger.wait()
