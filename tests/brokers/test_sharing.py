"""What is particular to groups in memory and embedded: who may join whom, and files of older versions."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.memory import MemoryBroker
from dragoman.core.broker import Broker, Sharing, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError, GroupTaken
from dragoman.core.message import Message
from dragoman.core.partitioning import start_at_offset
from dragoman.testing import ManualClock
from dragoman.testing.child import Child


@pytest.fixture(params=["memory", "embedded"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Broker:
    if request.param == "memory":
        return MemoryBroker(f"memory://{uuid4().hex}")
    return EmbeddedBroker(f"embedded://{tmp_path}/data")


async def test_members_of_one_group_share_alike(broker: Broker) -> None:
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.create(Channel("d", 1))
    await broker.subscribe(Subscription(("c",), "g", sharing=Sharing.FAILOVER))
    with pytest.raises(ConfigurationError, match="failover"):
        await broker.subscribe(Subscription(("c",), "g"))
    with pytest.raises(GroupTaken):
        await broker.subscribe(Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE))
    await broker.subscribe(Subscription(("d",), "g", sharing=Sharing.EXCLUSIVE))
    await broker.close()


async def test_a_durable_group_cannot_be_joined_as_a_temporary_one(broker: Broker) -> None:
    await broker.connect()
    await broker.create(Channel("c", 1))
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await receiver.close()
    with pytest.raises(ConfigurationError, match="durable"):
        await broker.subscribe(Subscription(("c",), "g", durable=False))
    await broker.close()


async def test_an_exclusive_member_that_fell_silent_is_replaced() -> None:
    clock = ManualClock()
    broker = MemoryBroker(f"memory://{uuid4().hex}?lease=30", clock=clock)
    await broker.connect()
    await broker.create(Channel("c", 1))
    exclusive = Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE)
    first = await broker.subscribe(exclusive)
    await broker.publish([Message("c", b"x")])
    clock.advance(31)
    second = await broker.subscribe(exclusive)
    assert [message.payload for message in await second.receive(1, 0.01)] == [b"x"]
    with pytest.raises(GroupTaken):
        await first.receive(1, 0.01)
    await broker.close()


async def test_an_exclusive_member_that_was_killed_is_replaced_at_once(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}/data?lease=300"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 1))
    async with Child("hold", url, "c", "g") as child:
        await child.ready()
        with pytest.raises(GroupTaken):
            await broker.subscribe(Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE))
        child.kill()
        await child.process.wait()
        await broker.subscribe(Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE))
    await broker.close()


async def test_files_of_the_first_version_are_brought_up_to_date(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}/data"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"x")])
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await receiver.acknowledge(await receiver.receive(1, 30))
    await broker.close()
    with sqlite3.connect(tmp_path / "data" / "broker.db") as connection:
        connection.executescript(
            "ALTER TABLE team DROP COLUMN durable; ALTER TABLE member DROP COLUMN sharing;"
            "ALTER TABLE member DROP COLUMN rank; PRAGMA user_version = 1"
        )
    connection.close()
    broker = EmbeddedBroker(url)
    await broker.connect()
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await broker.publish([Message("c", b"y")])
    assert [message.payload for message in await receiver.receive(10, 30)] == [b"y"]
    await broker.close()


def test_an_offset_outside_the_log_is_moved_inside() -> None:
    assert start_at_offset({0: 1, 2: 99}, "c", [(5, 9), (2, 3), (0, 4)]) == [5, 2, 4]
