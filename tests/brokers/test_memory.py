"""What is particular to the memory broker: its clock, its name, its threads."""

from __future__ import annotations

import asyncio
import pickle
import threading
from uuid import uuid4

import pytest

from dragoman.adapters.memory import MemoryBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, ConfigurationError, Revoked
from dragoman.core.message import Message
from dragoman.testing import ManualClock


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


async def test_a_delayed_message_comes_when_the_clock_says_so(url: str) -> None:
    clock = ManualClock()
    broker = MemoryBroker(url, clock=clock)
    await broker.connect()
    await broker.create(Channel("c", 1))
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await broker.publish([Message("c", b"later")], delay=3600)
    assert await receiver.receive(10, 0.01) == []
    waiting = asyncio.create_task(receiver.receive(10, 60.0))
    await asyncio.sleep(0)
    clock.advance(3599)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1)
    [message] = await waiting
    assert message.payload == b"later"
    await receiver.release([message], delay=10)
    assert await receiver.receive(10, 0.01) == []
    clock.advance(10)
    assert [again.attempt for again in await receiver.receive(10, 0.01)] == [2]
    await broker.close()


async def test_a_lease_runs_out_when_the_clock_says_so(url: str) -> None:
    clock = ManualClock()
    broker = MemoryBroker(f"{url}?lease=30", clock=clock)
    await broker.connect()
    await broker.create(Channel("c", 1))
    first = await broker.subscribe(Subscription(("c",), "g"))
    second = await broker.subscribe(Subscription(("c",), "g"))
    await broker.publish([Message("c", b"x")])
    batches = [await first.receive(1, 0.01), await second.receive(1, 0.01)]
    [message] = [one for batch in batches for one in batch]
    owner, other = (first, second) if batches[0] else (second, first)
    clock.advance(29)
    assert await other.receive(1, 0.01) == []
    clock.advance(2)
    assert [again.attempt for again in await other.receive(1, 0.01)] == [2]
    with pytest.raises(Revoked):
        await owner.acknowledge([message])
    await broker.close()


async def test_brokers_of_one_name_meet_and_their_channels_go_with_the_last(url: str) -> None:
    one, other = MemoryBroker(url), MemoryBroker(url)
    await one.connect()
    await other.connect()
    await one.create(Channel("c"))
    assert await other.channels() == ["c"]
    await one.close()
    assert await other.channels() == ["c"]
    await other.close()
    await one.connect()
    assert await one.channels() == []
    await one.close()


async def test_members_in_several_threads_share_a_group(url: str) -> None:
    broker = MemoryBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 4))
    found: list[bytes | None] = []
    joined = threading.Event()

    def consume() -> None:
        async def run() -> None:
            own = MemoryBroker(url)
            await own.connect()
            receiver = await own.subscribe(Subscription(("c",), "g"))
            joined.set()
            while len(found) < 500:
                batch = await receiver.receive(50, 0.2)
                found.extend(message.payload for message in batch)
                await receiver.acknowledge(batch)
            await own.close()

        asyncio.run(run())

    thread = threading.Thread(target=consume)
    thread.start()
    await asyncio.to_thread(joined.wait, 60)
    for number in range(500):
        await broker.publish([Message("c", b"%d" % number, key=b"%d" % number)])
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert set(found) == {b"%d" % number for number in range(500)}
    await broker.close()


async def test_retention_drops_old_messages(url: str) -> None:
    clock = ManualClock()
    broker = MemoryBroker(url, clock=clock)
    await broker.connect()
    await broker.create(Channel("c", 1, retention=100.0))
    await broker.publish([Message("c", b"old")])
    clock.advance(200)
    await broker.publish([Message("c", b"new")])
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    assert [message.payload for message in await receiver.receive(10, 0.01)] == [b"new"]
    assert broker.log().partitions("c") == {0: (1, 2)}
    await broker.close()


async def test_it_says_what_is_wrong(url: str) -> None:
    broker = MemoryBroker(url)
    with pytest.raises(BrokerUnavailable):
        await broker.publish([Message("c", b"")])
    with pytest.raises(ChannelNotFound):
        broker.log().partitions("c")
    await broker.connect()
    await broker.create(Channel("c", 2))
    with pytest.raises(ConfigurationError):
        await broker.publish([Message("c", b"", partition=2)])
    with pytest.raises(ConfigurationError):
        await MemoryBroker(url, clock=ManualClock()).connect()
    with pytest.raises(ConfigurationError):
        pickle.dumps(broker.log())
    for bad in ("lease=0", "lease=x", "colour=red"):
        with pytest.raises(ConfigurationError):
            MemoryBroker(f"{url}?{bad}")
    with pytest.raises(ConfigurationError):
        await broker.subscribe(Subscription(("c",), "g", options={"prefetch": 1}))
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await receiver.close()
    with pytest.raises(BrokerUnavailable):
        await receiver.receive(1, 0.0)
    await broker.close()
