"""Bridges: everything arrives on the other broker as it was, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from dragoman.cli.channel.bridging import Address, address
from dragoman.client import bridge as loop
from dragoman.client.bridge import Bridge, End
from dragoman.client.history import history
from dragoman.core.broker import Acknowledgement, Broker, SkipsDamage, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, ConfigurationError
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message, Position
from tests.client.conftest import payloads
from tests.client.scripted import ScriptedBroker, numbered

PATIENCE = 60.0
FAILURES = loop.PATIENCE
COUNT, KEYS = 600, 7
COMMAND = (sys.executable, "-m", "dragoman.cli", "channel", "bridge")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Broker]:
    broker: Broker = load(BROKERS, scheme_of(url))(url)
    await broker.connect()
    try:
        yield broker
    finally:
        await broker.close()


def sent(channel: str) -> list[Message]:
    return [
        Message(
            channel,
            b"\0\0\0\0\7payload-%d" % number,
            b"key-%d" % (number % KEYS),
            (("n", b"%d" % number), ("binary", bytes((number % 256, 0, 255)))),
            timestamp=1_700_000_000_000 + number,
        )
        for number in range(COUNT)
    ]


async def gather(
    broker: Broker, channel: str, wanted: int, seen: Collection[bytes | None] = ()
) -> list[Message]:
    """All deliveries until so many different payloads were there, with those that were seen before."""
    receiver = await broker.subscribe(Subscription((channel,), "check"))
    found: list[Message] = []
    async with asyncio.timeout(PATIENCE):
        while len({*seen, *(message.payload for message in found)}) < wanted:
            batch = await receiver.receive(200, 1.0)
            found += batch
            if broker.capabilities.acknowledgement is Acknowledgement.EACH:
                await receiver.acknowledge(batch)
            else:
                await receiver.acknowledge(list({message.partition: message for message in batch}.values()))
    await receiver.close()
    return found


def check(found: list[Message], channel: str) -> None:
    by_payload = {message.payload: message for message in found}
    order: dict[bytes | None, list[int]] = defaultdict(list)
    for message in found:
        number = int((message.payload or b"").rpartition(b"-")[2])
        if number not in order[message.key]:
            order[message.key].append(number)
    for message in sent(channel):
        copy = by_payload[message.payload]
        assert (copy.key, copy.headers) == (message.key, message.headers)
    for numbers in order.values():
        assert numbers == sorted(numbers)


@asynccontextmanager
async def bridging(source: End, target: End, told: list[int]) -> AsyncIterator[None]:
    bridge = Bridge(source, target, group="bridge", progress=told.append)
    running = asyncio.create_task(bridge.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_bridge_keeps_what_a_message_is(tmp_path: Path) -> None:
    async with opened(f"embedded://{tmp_path}/one") as one, opened(f"embedded://{tmp_path}/two") as two:
        await one.create(Channel("orders", 3, retention=1e10))
        await one.publish([*sent("orders"), Message("orders", None, b"gone")])
        told = [0]
        async with bridging(End(one, "orders"), End(two, "copies"), told):
            await until(lambda: told[-1] == COUNT + 1)
        made = await two.describe("copies")
        assert (made.partitions, made.retention) == (3, 1e10)
        found = await gather(two, "copies", COUNT + 1)
        assert [message.key for message in found if message.payload is None] == [b"gone"]
        check([message for message in found if message.payload is not None], "orders")
        assert {message.timestamp for message in found} >= {message.timestamp for message in sent("orders")}


async def test_a_bridge_goes_on_where_it_was(tmp_path: Path) -> None:
    async with opened(f"embedded://{tmp_path}/one") as one, opened(f"embedded://{tmp_path}/two") as two:
        await one.create(Channel("orders"))
        for number in range(3):
            await one.publish([Message("orders", b"%d" % number, b"key")])
            told = [0]
            async with bridging(End(one, "orders"), End(two, "orders"), told):
                await until(lambda told=told: told[-1] == 1)
        found = await gather(two, "orders", 3)
        assert [message.payload for message in found] == [b"0", b"1", b"2"]


async def test_a_bridge_may_end_when_nothing_comes(tmp_path: Path) -> None:
    async with opened(f"embedded://{tmp_path}/one") as one, opened(f"embedded://{tmp_path}/two") as two:
        await one.create(Channel("orders"))
        assert await Bridge(End(one, "orders"), End(two, "orders"), group="bridge").run(idle=0.1) == 0
        with pytest.raises(ChannelNotFound):
            await Bridge(End(one, "nothing"), End(two, "orders"), group="bridge").run(idle=0.1)


async def damaged_source(folder: Path) -> str:
    """The second message of partition 0 cannot be read. Partition 1 is sound."""
    url = f"embedded://{folder}"
    async with opened(url) as broker:
        await broker.create(Channel("orders", 2))
        for name in (b"first", b"second", b"third"):
            await broker.publish([Message("orders", name, partition=0)])
        await broker.publish([Message("orders", b"sound", partition=1)])
    [path] = [path for path in folder.rglob("*.log") if b"second" in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"second", b"SECOND"))
    return url


async def payloads_of(broker: Broker, channel: str) -> list[bytes | None]:
    return sorted([message.payload async for message in history(broker, channel)], key=str)


async def test_a_bridge_at_damage_goes_on_with_other_partitions_and_later_behind_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = await damaged_source(tmp_path / "one")
    async with opened(url) as one, opened(f"embedded://{tmp_path}/two") as two:
        told = [0]
        async with bridging(End(one, "orders"), End(two, "orders"), told):
            await until(lambda: told[-1] == 2)
            # More often than a receiver that fails is kept.
            for number in range(2 * FAILURES):
                await one.publish([Message("orders", b"later %d" % number, partition=1)])
                await until(lambda number=number: told[-1] == 3 + number)
            [line] = [each for each in caplog.records if "damaged messages" in each.getMessage()]
            assert (line.partition, line.offset, line.count, line.group) == (0, 1, 1, "bridge")
            [skipped] = await cast(SkipsDamage, one).skip_damage("orders", "bridge")
            assert (skipped.first, skipped.until) == (1, 2)
            await until(lambda: told[-1] == 3 + 2 * FAILURES)
        later = [b"later %d" % number for number in range(2 * FAILURES)]
        assert await payloads_of(two, "orders") == sorted([b"first", b"sound", b"third", *later], key=str)


async def test_a_bridge_that_ends_at_damage_says_so(tmp_path: Path) -> None:
    url = await damaged_source(tmp_path / "one")
    async with opened(url) as one, opened(f"embedded://{tmp_path}/two") as two:
        bridge = Bridge(End(one, "orders"), End(two, "orders"), group="bridge")
        assert await bridge.run(idle=0.1) == 2
        assert bridge.standing_at is not None
        assert (bridge.standing_at.first, bridge.standing_at.until) == (1, 2)
    ended = subprocess.run(
        [*COMMAND, f"{url}/orders", f"embedded://{tmp_path}/three/orders", "--idle", "0.1"],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode != 0 and b"Copied 2 messages" in ended.stdout
    assert b"dragoman channel skip orders" in ended.stderr


async def test_a_bridge_that_is_stopped_acknowledges_what_it_has_copied() -> None:
    """Also if it is asked while the target is still confirming, and if the target is away."""
    source, target = ScriptedBroker(), ScriptedBroker()
    await source.connect()
    await target.connect()
    await source.create(Channel("work", 1))
    bridge = Bridge(End(source, "work"), End(target, "copies"), group="bridge")
    publish = target.publish

    async def stopped_meanwhile(messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        bridge.stop()
        return await publish(messages, delay)

    target.publish = stopped_meanwhile  # type: ignore[method-assign]
    running = asyncio.create_task(bridge.run())
    await until(lambda: bool(source.receivers))
    source.receiver.deliver(*numbered(3))
    async with asyncio.timeout(PATIENCE):
        assert await running == 3
    assert source.receiver.offsets == [2]
    assert source.receiver.closed
    target.refuse_publish = {"copies"}
    again = Bridge(End(source, "work"), End(target, "copies"), group="bridge")
    running = asyncio.create_task(again.run())
    await until(lambda: len(source.receivers) == 2)
    source.receiver.deliver(*numbered(2, start=3))
    await until(lambda: target.refused > 0)
    again.stop()
    async with asyncio.timeout(PATIENCE):
        assert await running == 0
    assert source.receiver.offsets == []
    await source.close()
    await target.close()


async def test_a_bridge_acknowledges_again_what_could_not_be_acknowledged() -> None:
    source, target = ScriptedBroker(), ScriptedBroker()
    await source.connect()
    await target.connect()
    await source.create(Channel("work", 1))
    bridge = Bridge(End(source, "work"), End(target, "copies"), group="bridge")
    running = asyncio.create_task(bridge.run())
    await until(lambda: bool(source.receivers))
    source.receiver.acknowledge_errors = [BrokerUnavailable("Away.")]
    source.receiver.deliver(*numbered(3))
    await until(lambda: not source.receiver.acknowledge_errors)
    bridge.stop()
    async with asyncio.timeout(PATIENCE):
        assert await running == 3
    assert source.receiver.offsets == [2]
    await source.close()
    await target.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_bridge_that_is_asked_to_end_copies_nothing_twice(number: int, tmp_path: Path) -> None:
    here, there = f"embedded://{tmp_path}/here", f"embedded://{tmp_path}/there"
    async with opened(here) as one, opened(there) as two:
        await one.create(Channel("orders", 2))
        await two.create(Channel("orders", 2))
        first, later = sent("orders")[: COUNT // 2], sent("orders")[COUNT // 2 :]
        found: list[Message] = []
        for part in (first, later):
            await one.publish(part)
            process = await asyncio.to_thread(start, f"{here}/orders", f"{there}/orders")
            while not {message.payload for message in part} & {message.payload for message in found}:
                found += await gather(two, "orders", 1)
            process.send_signal(number)
            assert await asyncio.to_thread(process.wait) == 0
        process = await asyncio.to_thread(start, f"{here}/orders", f"{there}/orders", "--idle", "0.5")
        found += await gather(two, "orders", COUNT, {message.payload for message in found})
        assert await asyncio.to_thread(process.wait) == 0
        assert len(found) == COUNT
        check(found, "orders")


async def test_a_bridge_whose_ends_are_both_away_leaves_nothing_out() -> None:
    source, target = ScriptedBroker(), ScriptedBroker()
    await source.connect()
    await target.connect()
    await source.create(Channel("work", 1))
    target.refuse_publish = {"copies"}
    told = [0]
    async with bridging(End(source, "work"), End(target, "copies"), told):
        await until(lambda: bool(source.receivers))
        source.receiver.extend_errors = [BrokerUnavailable("Away, too.")]
        source.receiver.deliver(*numbered(3))
        source.receiver.deliver(*numbered(2, start=3))
        await until(lambda: not source.receiver.extend_errors)
        target.refuse_publish.clear()
        await until(lambda: told[-1] == 5)
    assert [message.payload for message in payloads(target, "copies")] == [b"0", b"1", b"2", b"3", b"4"]
    await source.close()
    await target.close()


@pytest.mark.parametrize("target", ["embedded", "redis", "kafka"])
async def test_a_bridge_that_is_killed_leaves_nothing_out(
    target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    copies = f"copies-{uuid4().hex}"
    there = (
        f"embedded://{tmp_path}/there"
        if target == "embedded"
        else request.getfixturevalue(f"{target}_server").url
    )
    here = f"embedded://{tmp_path}/here"
    async with opened(here) as one, opened(there) as two:
        await one.create(Channel("orders", 2))
        await two.create(Channel(copies, 2))
        killed = await asyncio.to_thread(start, f"{here}/orders", f"{there.rstrip('/')}/{copies}")
        try:
            half = COUNT // 2
            await one.publish(sent("orders")[:half])
            early = await gather(two, copies, half // 3)
        finally:
            killed.kill()
            await asyncio.to_thread(killed.wait)
        await one.publish(sent("orders")[half:])
        second = await asyncio.to_thread(start, f"{here}/orders", f"{there.rstrip('/')}/{copies}")
        try:
            seen = {message.payload for message in early}
            late = await gather(two, copies, COUNT, seen)
        finally:
            second.kill()
            await asyncio.to_thread(second.wait)
        check([*early, *late], "orders")


async def test_what_cannot_be_replayed_is_landed_in_a_log(mosquitto_server, tmp_path: Path) -> None:
    url, name = mosquitto_server.url, f"readings-{uuid4().hex}"
    async with opened(url) as source, opened(f"embedded://{tmp_path}/log") as log:
        await source.create(Channel(name, 2))
        bridge = asyncio.create_task(
            Bridge(End(source, name), End(log, name), group="landing").run(idle=30.0)
        )
        async with asyncio.timeout(PATIENCE):
            while name not in await log.channels():
                await asyncio.sleep(0.01)
            # What is published before the bridge has its group is for nobody.
            while not await asyncio.wait_for(landed(source, log, name), PATIENCE):
                await asyncio.sleep(0.05)
        await source.publish(sent(name))
        found = await gather(log, name, COUNT + 1)
        bridge.cancel()
        await asyncio.gather(bridge, return_exceptions=True)
        check([message for message in found if message.payload != b"probe"], name)


async def landed(source: Broker, log: Broker, name: str) -> bool:
    await source.publish([Message(name, b"probe")])
    return any(end > start for start, end in log.log().partitions(name).values())


def start(source: str, target: str, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, source, target, *more], stdout=subprocess.DEVNULL)


def test_an_address_is_a_broker_and_a_channel() -> None:
    assert address("orders") == Address(None, "orders")
    assert address("embedded://data/orders") == Address("embedded://data", "orders")
    assert address("embedded:///var/data/orders") == Address("embedded:///var/data", "orders")
    assert address("kafka://a:1,b:2/orders?linger.ms=5") == Address("kafka://a:1,b:2?linger.ms=5", "orders")
    assert address("rabbitmq://u:p@host/vhost/orders") == Address("rabbitmq://u:p@host/vhost", "orders")


@pytest.mark.parametrize("wrong", ["kafka://host", "kafka://host/", "://x/y", "kafka://host/a b", "a/b"])
def test_an_address_without_a_channel_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError):
        address(wrong)
