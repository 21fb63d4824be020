"""What is particular to groups in memory and embedded: who may join whom, and files of older versions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.embedded.database import VERSION
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


TO_VERSION_3 = "ALTER TABLE member RENAME COLUMN lease_end TO lease; PRAGMA user_version = 3;"
TO_VERSION_2 = f"{TO_VERSION_3} ALTER TABLE member RENAME COLUMN lease TO expires; PRAGMA user_version = 2;"
TO_VERSION_1 = (
    f"{TO_VERSION_2} ALTER TABLE team DROP COLUMN durable; ALTER TABLE member DROP COLUMN sharing;"
    "ALTER TABLE member DROP COLUMN rank; PRAGMA user_version = 1;"
)


def change(tmp_path: Path, statements: str) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / "broker.db")) as connection:
        connection.executescript(statements)


@pytest.mark.parametrize("older", [TO_VERSION_1, TO_VERSION_2, TO_VERSION_3])
async def test_files_of_older_versions_are_brought_up_to_date(tmp_path: Path, older: str) -> None:
    url = f"embedded://{tmp_path}/data"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"x")])
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await receiver.acknowledge(await receiver.receive(1, 30))
    await broker.close()
    change(tmp_path, older)
    broker = EmbeddedBroker(url)
    await broker.connect()
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await broker.publish([Message("c", b"y")])
    assert [message.payload for message in await receiver.receive(10, 30)] == [b"y"]
    await broker.close()


@pytest.mark.parametrize("lease", [time.time() + 3600, time.monotonic() + 3600, 1e300])
async def test_leases_of_an_older_version_have_ended(tmp_path: Path, lease: float) -> None:
    """Even if the process of that member still runs, as one that hangs does."""
    url = f"embedded://{tmp_path}/data"
    older, newer = EmbeddedBroker(url), EmbeddedBroker(url)
    await older.connect()
    await older.create(Channel("c", 2))
    await older.publish([Message("c", b"%d" % number, partition=number) for number in (0, 1)])
    receiver = await older.subscribe(Subscription(("c",), "g", start="earliest"))
    assert len(await receiver.receive(2, 30)) + len(await receiver.receive(2, 0.0)) == 2
    change(tmp_path, f"{TO_VERSION_2} UPDATE member SET expires = {lease!r}")

    await newer.connect()
    taking_over = await newer.subscribe(Subscription(("c",), "g", start="earliest"))
    found: set[bytes | None] = set()
    async with asyncio.timeout(60):
        while len(found) < 2:
            found |= {message.payload for message in await taking_over.receive(2, 1.0)}

    await newer.close()
    await older.close()


async def test_a_process_of_an_older_version_is_refused_and_one_that_runs_takes_no_member_for_dead(
    tmp_path: Path,
) -> None:
    """It knows the tables as they were, and the time by another clock."""
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    with closing(sqlite3.connect(tmp_path / "data" / "broker.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        for statement in (
            "SELECT id, channels, expires, sharing FROM member WHERE team = ? ORDER BY rank, id",
            "UPDATE member SET expires = 0 WHERE id = ?",
            "SELECT id, channels, lease, sharing FROM member WHERE team = ? ORDER BY rank, id",
            "UPDATE member SET lease = ? WHERE id = ?",
        ):
            with pytest.raises(sqlite3.OperationalError, match=r"no such column: (expires|lease)"):
                connection.execute(statement, ("g",))
    await broker.close()
    change(tmp_path, f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ConfigurationError, match=f"version {VERSION + 1}.*knows {VERSION}"):
        await broker.connect()


def test_an_offset_outside_the_log_is_moved_inside() -> None:
    assert start_at_offset({0: 1, 2: 99}, "c", [(5, 9), (2, 3), (0, 4)]) == [5, 2, 4]
