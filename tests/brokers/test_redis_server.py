"""Redis: what only a real server can show: access, encryption, its own trouble, trimming."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from uuid import uuid4

import pytest
from redis.asyncio import Redis as Client

from dragoman.adapters.redis import RedisBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import AccessRefused, BrokerUnavailable, ChannelNotFound, ConfigurationError
from dragoman.core.message import Message, Position
from tests.brokers.certificates import make_certificates
from tests.brokers.redis_servers import own_redis
from tests.services.redis import Redis

PATIENCE = 60.0


async def connected(url: str) -> RedisBroker:
    broker = RedisBroker(url)
    await broker.connect()
    return broker


async def received(broker: RedisBroker, channel: str, count: int, group: str = "g") -> list[Message]:
    receiver = await broker.subscribe(Subscription((channel,), group))
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += await receiver.receive(100, 1.0)
    await receiver.close()
    return found


async def round_trip(url: str) -> None:
    broker = await connected(url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"x", key=b"k")])
    assert [message.payload for message in await received(broker, channel, 1)] == [b"x"]
    log = broker.log()
    assert log.partitions(channel) == {0: (0, 1)}
    log.close()
    await broker.close()


async def test_users_have_passwords_and_rights(tmp_path: Path) -> None:
    acl = (
        "--user default off",
        "--user writer on >right ~dragoman:* +@all -@admin",
        "--user reader on >right ~other:* +@all",
    )
    words = [word for line in acl for word in line.split(" ")]
    with own_redis(tmp_path, *words) as server:
        place = f"127.0.0.1:{server.port}"
        # Without the right to list connections, the dead are found by their leases.
        await round_trip(f"redis://writer:right@{place}")
        for url in (f"redis://writer:wrong@{place}", f"redis://{place}"):
            with pytest.raises(AccessRefused) as caught:
                await RedisBroker(url).connect()
            assert "wrong" not in str(caught.value)
        broker = await connected(f"redis://reader:right@{place}")
        with pytest.raises(AccessRefused):
            await broker.create(Channel("c"))
        await broker.close()


async def test_connections_may_be_encrypted_on_both_sides(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    words = ("--port", "0", "--tls-port", "{port}", "--tls-ca-cert-file", str(files.ca))
    own = ("--tls-cert-file", str(files.server), "--tls-key-file", str(files.server_key))
    with own_redis(tmp_path, *words, *own) as server:
        place = f"127.0.0.1:{server.port}"
        ours = f"certificate={files.client}&private_key={files.client_key}"
        await round_trip(f"rediss://{place}?ca={files.ca}&{ours}")
        await round_trip(f"redis://{place}?tls=yes&verify=no&{ours}")
        for query in (f"ca={files.ca}", ours):
            with pytest.raises(BrokerUnavailable):
                await RedisBroker(f"rediss://{place}?{query}").connect()


async def test_a_server_that_forgets_is_refused_unless_that_is_accepted(tmp_path: Path) -> None:
    with own_redis(tmp_path, "--appendonly", "no") as server:
        with pytest.raises(ConfigurationError, match="appendonly"):
            await RedisBroker(server.url).connect()
        await round_trip(f"{server.url}?durability=memory")


async def test_a_server_without_memory_or_rights_to_write_says_so_and_recovers(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server:
        broker = await connected(server.url)
        await broker.create(Channel("c", 1))
        admin = Client(port=server.port)
        await admin.config_set("maxmemory", 1)
        with pytest.raises(BrokerUnavailable, match="no memory"):
            await broker.publish([Message("c", b"x")])
        await admin.config_set("maxmemory", 0)
        await admin.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(BrokerUnavailable, match="replica"):
            await broker.publish([Message("c", b"x")])
        await admin.execute_command("REPLICAOF", "NO", "ONE")
        await admin.execute_command("SCRIPT", "FLUSH")
        await broker.publish([Message("c", b"y")])
        assert [message.payload for message in await received(broker, "c", 1)] == [b"y"]
        await admin.aclose()
        await broker.close()


async def end_the_wait(server: Redis) -> None:
    """Whoever waits for replicas is answered as if its time were over."""
    admin = Client(port=server.port)
    async with asyncio.timeout(PATIENCE):
        while not (waiting := [each["id"] for each in await admin.client_list() if each["cmd"] == "wait"]):
            await asyncio.sleep(0.01)
    for number in waiting:
        await admin.client_unblock(int(number))
    await admin.aclose()


async def test_a_publish_waits_for_as_many_replicas_as_it_is_told(tmp_path: Path) -> None:
    with own_redis(tmp_path / "first", "--repl-diskless-sync-delay", "0") as server:
        alone = await connected(f"{server.url}?replicas=1&timeout=60")
        creating = asyncio.create_task(alone.create(Channel("c", 1)))
        await end_the_wait(server)
        with pytest.raises(BrokerUnavailable, match="0 replicas"):
            await creating
        await alone.close()
        with own_redis(tmp_path / "second", "--replicaof", f"127.0.0.1 {server.port}") as replica:
            copy = Client(port=replica.port)
            deadline = time.monotonic() + PATIENCE
            while (await copy.info("replication")).get("master_link_status") != "up":
                assert time.monotonic() < deadline, "the replica does not follow"
                await asyncio.sleep(0.05)
            broker = await connected(f"{server.url}?replicas=1&timeout=60")
            await broker.publish([Message("c", b"x")])
            assert await copy.xlen("dragoman:{c}:0") == 1
            await copy.aclose()
            await broker.close()


async def test_trimming_never_removes_what_a_group_has_not_done(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    old = [Message(channel, b"%d" % number, timestamp=1000 + number) for number in range(10)]
    await broker.publish(old)
    quick = await broker.subscribe(Subscription((channel,), "quick"))
    slow = await broker.subscribe(Subscription((channel,), "slow"))
    log = broker.log()

    async def first_after_trimming() -> int:
        await broker.alter(Channel(channel, 1, retention=3600.0))
        return log.partitions(channel)[0][0]

    for receiver in (quick, slow):
        held = await receiver.receive(10, PATIENCE)
        assert len(held) == 10
        if receiver is quick:
            await quick.acknowledge(held[-1:])
    assert await first_after_trimming() == 0
    # One is set aside for later: it stays, and so does all behind it.
    await slow.release([held[3]], delay=0.2)
    rest: list[Message] = []
    while not rest or rest[-1].offset != 9:
        rest += await slow.receive(10, PATIENCE)
    await slow.acknowledge(rest[-1:])
    if all(message.offset != 3 for message in rest):
        assert await first_after_trimming() == 3
        [late] = await slow.receive(10, PATIENCE)
        await slow.acknowledge([late])
    assert await first_after_trimming() == 10
    await broker.publish([Message(channel, b"new")])
    assert await first_after_trimming() == 10
    assert log.partitions(channel)[0] == (10, 11)
    log.close()
    await broker.close()


async def test_a_batch_is_taken_whole_or_not_at_all(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 2))
    with pytest.raises(ConfigurationError):
        await broker.publish([Message(channel, b"a"), Message(channel, b"b", partition=9)])
    assert set(broker.log().partitions(channel).values()) == {(0, 0)}
    # One that is at fault does not spoil the calls that go with it.
    results = await asyncio.gather(
        broker.publish([Message(channel, b"good")]),
        broker.publish([Message(channel, b"bad", partition=9)]),
        broker.publish([Message(channel, b"better")]),
        broker.publish([Message("not-there", b"bad")]),
        return_exceptions=True,
    )
    assert isinstance(results[1], ConfigurationError) and isinstance(results[3], ChannelNotFound)
    assert {message.payload for message in await received(broker, channel, 2)} == {b"good", b"better"}
    await broker.close()


async def test_a_call_at_fault_does_not_have_the_messages_of_others_stored_twice(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel, other = f"c-{uuid4().hex}", f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    await broker.create(Channel(other, 1))
    await broker.publish([Message(channel, b"first"), Message(other, b"first")])
    # These travel together: the first channel has its message before the second one is found wrong.
    good, bad, last = await asyncio.gather(
        broker.publish([Message(channel, b"good")]),
        broker.publish([Message(other, b"bad", partition=9)]),
        broker.publish([Message(other, b"last")]),
        return_exceptions=True,
    )
    assert isinstance(bad, ConfigurationError)
    assert (good, last) == ([Position(channel, 0, 1)], [Position(other, 0, 1)])
    log = broker.log()
    assert (log.partitions(channel), log.partitions(other)) == ({0: (0, 2)}, {0: (0, 2)})
    log.close()
    await broker.close()


async def test_a_delayed_message_for_a_partition_that_is_gone_waits(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 2))
    receiver = await broker.subscribe(Subscription((channel,), "g"))
    raw = Client(port=redis_server.port)
    partition, elsewhere = f"dragoman:{{{channel}}}:1", f"elsewhere-{channel}"
    await raw.rename(partition, elsewhere)
    await broker.publish([Message(channel, b"later", partition=0)], delay=0.05)
    assert await receiver.receive(10, 0.5) == []
    await raw.rename(elsewhere, partition)
    [found] = await receiver.receive(10, PATIENCE)
    assert found.payload == b"later"
    await raw.aclose()
    await broker.close()


async def test_a_delayed_message_outlives_its_publisher(redis_server: Redis) -> None:
    publisher = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await publisher.create(Channel(channel, 3))
    headers = (("h", b"\x00\xff"), ("h", b"2"))
    sent = [
        Message(channel, None, key=b"k", headers=headers),
        Message(channel, b"", partition=2, timestamp=5),
    ]
    await publisher.publish(sent, delay=0.3)
    await publisher.close()
    broker = await connected(redis_server.url)
    found = {message.key: message for message in await received(broker, channel, 2)}
    assert (found[b"k"].payload, found[b"k"].headers) == (None, headers)
    assert (found[None].payload, found[None].partition, found[None].timestamp) == (b"", 2, 5)
    await broker.close()


async def test_large_messages_are_read_in_portions_and_come_again_whole(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    sent = [bytes([number]) * 1_000_000 for number in range(12)] + [b"small"] * 30
    await broker.publish([Message(channel, payload) for payload in sent])
    receiver = await broker.subscribe(Subscription((channel,), "g"))
    held: list[Message] = []
    while len(held) < len(sent):
        held += await receiver.receive(100, PATIENCE)
    assert [message.payload for message in held] == sent
    await receiver.release(held, delay=0.05)
    again: list[Message] = []
    while len(again) < len(sent):
        again += await receiver.receive(100, PATIENCE)
    assert sorted((message.offset, message.payload) for message in again) == list(enumerate(sent))
    assert {message.attempt for message in again} == {2}
    await broker.close()


async def test_entries_can_be_read_by_any_client_of_redis(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    [position] = await broker.publish([Message(channel, b"payload", key=b"key", timestamp=1234)])
    assert position is not None and position.offset == 0
    client = Client(port=redis_server.port)
    [(id, fields)] = await client.xrange(f"dragoman:{{{channel}}}:0")
    assert (id, fields) == (b"0-1", {b"v": b"payload", b"k": b"key", b"t": b"1234"})
    await client.aclose()
    await broker.close()


async def test_an_entry_that_another_program_has_written_does_not_stop_its_stream(
    redis_server: Redis,
) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"first")])
    client = Client.from_url(redis_server.url.partition("?")[0])
    [stream] = [key async for key in client.scan_iter(f"*{channel}*") if await client.type(key) == b"stream"]
    [[written, _]] = await client.xrange(stream)
    number = int(written.partition(b"-")[2])
    times = ("yesterday", "nan", "inf", "-1e300")
    entries = [*({"v": "odd", "t": time} for time in times), {"v": "odd", "h": "no headers"}, {"a": "b"}]
    for at, fields in enumerate(entries, 1):
        await client.xadd(stream, fields, id=f"0-{number + at}")
    await broker.publish([Message(channel, b"last")])
    found = await received(broker, channel, 8)
    assert [message.payload for message in found] == [b"first", *[b"odd"] * 5, None, b"last"]
    log = broker.log()
    assert log.offset_at(channel, 0, 0) == 0
    log.close()
    await client.aclose()
    await broker.close()


LARGEST = 2**64 - 1


@pytest.mark.parametrize("id", ["*", "5-0", "1-7", f"{LARGEST}-{LARGEST}"])
async def test_entries_with_ids_of_another_program_are_delivered_in_order(
    redis_server: Redis, id: str
) -> None:
    broker = await connected(redis_server.url)
    channel, healthy = f"c-{uuid4().hex}", f"c-{uuid4().hex}"
    client = Client.from_url(redis_server.url.partition("?")[0])
    for name in (channel, healthy):
        await broker.create(Channel(name, 1))
    receiver = await broker.subscribe(Subscription((channel, healthy), "g"))
    before = int(time.time() * 1000)
    await broker.publish([Message(channel, b"first")])
    await client.xadd(f"dragoman:{{{channel}}}:0", {"v": "foreign", "more": "x"}, id=id)
    await broker.publish([Message(healthy, b"healthy")])
    found: list[Message] = []
    while len(found) < 3:
        found += await receiver.receive(10, PATIENCE)
    [position] = await broker.publish([Message(channel, b"second")])
    # Now publishing is the first to meet it.
    await client.xadd(f"dragoman:{{{channel}}}:0", {"v": "foreign again"}, id=id)
    [later] = await broker.publish([Message(channel, b"third")])
    while len(found) < 6:
        found += await receiver.receive(10, PATIENCE)
    assert [message.payload for message in found if message.channel == healthy] == [b"healthy"]
    ours = [message for message in found if message.channel == channel]
    payloads = [b"first", b"foreign", b"second", b"foreign again", b"third"]
    assert [message.payload for message in ours] == payloads
    assert [message.offset for message in ours] == [0, 1, 2, 3, 4]
    assert (position, later) == (Position(channel, 0, 2), Position(channel, 0, 4))
    if id == "*":
        assert [before <= (message.timestamp or 0) <= time.time() * 1000 for message in ours] == [True] * 5
    await receiver.acknowledge(found)
    assert [each.behind for each in await broker.lag(channel, "g")] == [0]
    # Whoever begins later reads the same.
    assert [message.payload for message in await received(broker, channel, 5, "other")] == payloads
    await receiver.close()
    await client.aclose()
    await broker.close()


async def test_the_bounds_of_a_partition_count_entries_of_other_programs(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    client = Client.from_url(redis_server.url.partition("?")[0])
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"first")])
    receiver = await broker.subscribe(Subscription((channel,), "g"))
    await receiver.acknowledge(await receiver.receive(1, PATIENCE))
    await receiver.close()
    stream = f"dragoman:{{{channel}}}:0"
    log = broker.log()
    await client.xadd(stream, {"v": "foreign"})
    assert log.partitions(channel) == {0: (0, 2)}
    await client.xadd(stream, {"v": "foreign"})
    assert log.offset_at(channel, 0, 0) == 0
    await client.xadd(stream, {"v": "foreign"})
    assert [each.behind for each in await broker.lag(channel, "g")] == [3]
    assert bytes(log.read(channel, 0, 0, 4).values) == b"first" + b"foreign" * 3
    log.close()
    await client.aclose()
    await broker.close()


async def test_ids_grow_even_if_nothing_of_ours_is_left(redis_server: Redis) -> None:
    broker = await connected(redis_server.url)
    client = Client.from_url(redis_server.url.partition("?")[0])
    for removed, jump in ((0, 0), (3, 0), (3, 40)):
        channel = f"c-{uuid4().hex}"
        stream = f"dragoman:{{{channel}}}:0"
        await broker.create(Channel(channel, 1))
        receiver = await broker.subscribe(Subscription((channel,), "g"))
        if removed:
            await broker.publish([Message(channel, b"old") for _ in range(removed)])
            if jump:
                await client.xadd(stream, {"v": "old"}, id=f"0-{jump}")
            held: list[Message] = []
            while len(held) < removed + bool(jump):
                held += await receiver.receive(10, PATIENCE)
            await receiver.acknowledge(held)
            await client.xtrim(stream, maxlen=0, approximate=False)
        gone = await client.xadd(stream, {"v": "gone"})
        await client.xdel(stream, gone)
        [position] = await broker.publish([Message(channel, b"new")])
        assert position is not None and position.offset is not None
        assert position.offset >= max(removed, jump)
        [found] = await receiver.receive(10, PATIENCE)
        assert (found.payload, found.offset) == (b"new", position.offset)
        await receiver.close()
    await client.aclose()
    await broker.close()


async def test_a_delayed_message_is_brought_in_behind_an_entry_of_another_program(
    redis_server: Redis,
) -> None:
    broker = await connected(redis_server.url)
    channel = f"c-{uuid4().hex}"
    client = Client.from_url(redis_server.url.partition("?")[0])
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"delayed")], delay=0.01)
    fields: dict[str, bytes | str] = {f"f{number}": "x" for number in range(5000)}
    await client.xadd(f"dragoman:{{{channel}}}:0", fields | {"v": "foreign", "k": "key"})
    found = await received(broker, channel, 2)
    assert {(message.payload, message.key) for message in found} == {(b"delayed", None), (b"foreign", b"key")}
    await client.aclose()
    await broker.close()


async def test_a_server_starts_again_with_streams_that_other_programs_wrote_to(tmp_path: Path) -> None:
    with own_redis(tmp_path, "--aof-use-rdb-preamble", "no") as server:
        broker = await connected(server.url)
        client = Client(port=server.port)
        for name in ("empty", "some"):
            await broker.create(Channel(name, 1))
        await broker.publish([Message("some", b"first")])
        for name in ("empty", "some"):
            await client.xadd(f"dragoman:{{{name}}}:0", {"v": "foreign"})
            await broker.publish([Message(name, b"last")])
        await client.bgrewriteaof()
        async with asyncio.timeout(PATIENCE):
            while (about := await client.info("persistence"))["aof_rewrite_in_progress"] or about[
                "aof_rewrite_scheduled"
            ]:
                await asyncio.sleep(0.01)
        await client.aclose()
        await broker.close()
        server.kill()
        server.restart()
        broker = await connected(server.url)
        for name, payloads in (("empty", [b"foreign", b"last"]), ("some", [b"first", b"foreign", b"last"])):
            assert [message.payload for message in await received(broker, name, len(payloads))] == payloads
        await broker.close()
