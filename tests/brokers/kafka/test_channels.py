"""Channels with Kafka's own settings: compaction, tombstones, times; keys with a contract of their own."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Annotated
from uuid import uuid4

import pytest

from dragoman import Client, Key, endpoint, record
from dragoman.adapters.kafka.administration import Administration
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError, EncodeError
from dragoman.core.message import Message
from dragoman.testing.brokers.history import read_all
from tests.brokers.kafka.rigs import PATIENCE, connected, fresh, numbered, numbers, received
from tests.services.kafka import Kafka


async def test_settings_are_kafkas_own_and_are_described(kafka_server: Kafka) -> None:
    name = f"kafka-{uuid4().hex}"
    settings = {"cleanup.policy": "compact", "max.message.bytes": "50000"}
    async with connected(kafka_server) as broker:
        await broker.create(Channel(name, 2, retention=3600.0, settings=settings))
        found = await broker.describe(name)
        assert (found.partitions, found.retention, dict(found.settings)) == (2, 3600.0, settings)
        await broker.alter(Channel(name, 2, settings={"max.message.bytes": "60000"}))
        changed = await broker.describe(name)
        assert changed.retention is None
        assert changed.settings["max.message.bytes"] == "60000"
        with pytest.raises(EncodeError):
            await broker.publish([Message(name, secrets.token_bytes(100_000), key=b"k")])
        with pytest.raises(ConfigurationError):
            await broker.create(Channel(f"{name}-x", 1, settings={"no.such.setting": "1"}))
        with pytest.raises(ConfigurationError):
            await broker.create(Channel("not a kafka näme".replace(" ", "")))


async def test_whoever_comes_second_with_a_channel_finds_it(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka has it, but not all of it knows that yet."""
    found, missed = Administration._found, iter(range(3))

    def late(self: Administration, channel: str, timeout: float = PATIENCE) -> list[int]:
        return found(self, channel, timeout) if next(missed, None) is None else []

    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        monkeypatch.setattr(Administration, "_found", late)
        assert await broker.create(Channel(channel)) is False
        assert next(missed, None) is None


async def test_a_compacted_channel_keeps_the_last_of_each_key(kafka_server: Kafka) -> None:
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "100",
    }
    async with connected(kafka_server) as broker:
        channel = await fresh(broker, **settings)
        for number in range(20):
            await broker.publish([Message(channel, b"%d" % number, key=b"same")])
        await broker.publish([Message(channel, None, key=b"gone")])
        log = broker.log()
        deadline = time.monotonic() + PATIENCE
        while len(left := read_all(log, channel)) > 10:
            assert time.monotonic() < deadline, "nothing was compacted"
            # Only closed segments are compacted, and a segment is closed by the message after it.
            await broker.publish([Message(channel, b"more", key=b"same")])
            await asyncio.sleep(0.3)
        log.close()
        await broker.publish([Message(channel, b"last", key=b"same")])
        receiver = await broker.subscribe(Subscription((channel,), channel))
        found: list[Message] = []
        while not found or found[-1].payload != b"last":
            found += await received(receiver, 1)
        assert len(found) <= len(left) + 1
        assert [message.offset for message in found] == sorted(message.offset or 0 for message in found)
        await receiver.acknowledge(found[-1:])
        assert sum(lag.behind for lag in await broker.lag(channel, channel)) == 0


async def test_a_start_counts_only_for_a_group_without_a_position(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        timed = [
            message._replace(timestamp=1_600_000_000_000 + number * 1000)
            for number, message in enumerate(numbered(channel, 10))
        ]
        await broker.publish(timed)
        first = await broker.subscribe(Subscription((channel,), channel, start=1_600_000_003_500))
        held = await received(first, 6)
        assert numbers(held) == [4, 5, 6, 7, 8, 9]
        await first.acknowledge(held[:2][-1:])
        await first.close()
        second = await broker.subscribe(Subscription((channel,), channel, start={0: 0}))
        assert numbers(await received(second, 4)) == [6, 7, 8, 9]


async def test_a_group_that_started_at_the_end_goes_on_there_after_a_break(kafka_server: Kafka) -> None:
    async with connected(kafka_server) as broker:
        channel = await fresh(broker)
        await broker.publish(numbered(channel, 3))
        first = await broker.subscribe(Subscription((channel,), channel, start="latest"))
        async with asyncio.timeout(PATIENCE):
            while [lag.committed for lag in await broker.lag(channel, channel)] != [3]:
                await asyncio.sleep(0.01)
        await first.close()
        await broker.publish([Message(channel, b"3")])
        second = await broker.subscribe(Subscription((channel,), channel, start="latest"))
        assert numbers(await received(second, 1)) == [3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_begins_where_its_first_member_came_although_it_was_given_nothing(
    kafka_server: Kafka, protocol: str
) -> None:
    async with connected(kafka_server, f"group.protocol={protocol}") as broker:
        channel = await fresh(broker, partitions=2)
        await broker.publish(numbered(channel, 3))
        subscription = Subscription((channel,), channel, start="latest")
        await (await broker.subscribe(subscription)).close()
        await broker.publish([Message(channel, b"3")])
        second = await broker.subscribe(subscription)
        assert numbers(await received(second, 1)) == [3]


async def test_a_temporary_group_does_not_take_a_durable_ones_place_in_another_channel(
    kafka_server: Kafka,
) -> None:
    """Kafka forgets a group in all of its channels at once."""
    async with connected(kafka_server) as broker:
        kept, passing = await fresh(broker), await fresh(broker)
        await broker.publish([*numbered(kept, 2), *numbered(passing, 2)])
        durable = await broker.subscribe(Subscription((kept,), kept))
        await durable.acknowledge((await received(durable, 2))[-1:])
        await durable.close()
        for _ in range(2):
            temporary = await broker.subscribe(Subscription((passing,), kept, durable=False))
            found = await received(temporary, 2)
            assert numbers(found) == [0, 1], "it starts anew each time"
            await temporary.acknowledge(found[-1:])
            await temporary.close()
        assert [lag.committed for lag in await broker.lag(kept, kept)] == [2]
        assert [lag.committed for lag in await broker.lag(passing, kept)] == [0]


@record
class CustomerKey:
    region: str
    customer: int


@record
class Visit:
    page: str


async def test_keys_that_are_records_have_a_contract_of_their_own(kafka_server: Kafka) -> None:
    channel = f"visits-{uuid4().hex}"
    seen: dict[int, list[str]] = {}
    done = asyncio.Event()

    @endpoint(channel, group=channel)
    async def on_visit(visit: Visit, key: Annotated[CustomerKey, Key]) -> None:
        seen.setdefault(key.customer, []).append(visit.page)
        if sum(map(len, seen.values())) == 20:
            done.set()

    async with Client(kafka_server.url, "memory://", [on_visit]) as client:
        keys = [CustomerKey("north", 1), CustomerKey("south", 2)]
        places: dict[int, set[int]] = {}
        for number in range(20):
            key = keys[number % 2]
            position = await client.publish(channel, Visit(f"page {number:02}"), key=key)
            assert position is not None
            places.setdefault(key.customer, set()).add(position.partition)
        await asyncio.wait_for(done.wait(), PATIENCE)
        contracts = await client.registry.contracts(channel)
    assert sorted(contracts) == [f"{channel}-key", f"{channel}-value"]
    assert all(len(partitions) == 1 for partitions in places.values())
    assert [seen[key.customer] for key in keys] == [
        [f"page {number:02}" for number in range(20) if number % 2 == index] for index in (0, 1)
    ]
