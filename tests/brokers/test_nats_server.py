"""NATS: what only a real server can show: access, encryption, repetitions, publishing without a server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from uuid import uuid4

import nats
import pytest

from dragoman.adapters.nats import NatsBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    DragomanError,
    EncodeError,
)
from dragoman.core.message import Message
from tests.brokers.certificates import make_certificates
from tests.brokers.nats_servers import operated, own_nats, user_key
from tests.services.nats import Nats

PATIENCE = 60.0


async def connected(url: str) -> NatsBroker:
    broker = NatsBroker(url)
    await broker.connect()
    return broker


async def received(broker: NatsBroker, channel: str, count: int, group: str = "g") -> list[Message]:
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
    users = """authorization { users: [
        { user: writer, password: right }
        { user: reader, password: right, permissions: {
            publish: ["$JS.API.INFO"], subscribe: ["_INBOX.>"] } }
    ] }"""
    with own_nats(tmp_path, users) as server:
        place = f"127.0.0.1:{server.port}"
        await round_trip(f"nats://writer:right@{place}")
        for url in (f"nats://writer:wrong@{place}", f"nats://{place}", f"nats://{place}?token=wrong"):
            with pytest.raises(AccessRefused) as caught:
                await NatsBroker(url).connect()
            assert "wrong" not in str(caught.value)
        broker = await connected(f"nats://reader:right@{place}")
        with pytest.raises(AccessRefused):
            await broker.create(Channel("c"))
        await broker.close()


async def test_a_token_opens(tmp_path: Path) -> None:
    with own_nats(tmp_path, 'authorization { token: "right" }') as server:
        await round_trip(f"{server.url}?token=right")


async def test_an_nkey_opens_and_another_does_not(tmp_path: Path) -> None:
    key, other = user_key(), user_key()
    seed, wrong = tmp_path / "seed", tmp_path / "wrong"
    seed.write_text(key.seed)
    wrong.write_text(other.seed)
    with own_nats(tmp_path, f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}") as server:
        await round_trip(f"{server.url}?nkey={seed}")
        with pytest.raises(AccessRefused):
            await NatsBroker(f"{server.url}?nkey={wrong}").connect()


async def test_credentials_with_a_jwt_open_and_those_of_another_do_not(tmp_path: Path) -> None:
    known, foreign = operated(), operated()
    ours, theirs = tmp_path / "ours.creds", tmp_path / "theirs.creds"
    ours.write_text(known.credentials)
    theirs.write_text(foreign.credentials)
    with own_nats(tmp_path, *known.lines) as server:
        await round_trip(f"{server.url}?credentials={ours}")
        with pytest.raises(AccessRefused):
            await NatsBroker(f"{server.url}?credentials={theirs}").connect()


async def test_connections_may_be_encrypted_on_both_sides(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    own = f'cert_file: "{files.server}", key_file: "{files.server_key}"'
    tls = f'tls {{ {own}, ca_file: "{files.ca}", verify: true }}'
    with own_nats(tmp_path, tls) as server:
        ours = f"certificate={files.client}&private_key={files.client_key}"
        await round_trip(f"{server.url}?tls=yes&ca={files.ca}&{ours}")
        await round_trip(f"{server.url}?tls=yes&verify=no&{ours}")
        for query in (f"tls=yes&ca={files.ca}", f"tls=yes&{ours}"):
            with pytest.raises(BrokerUnavailable):
                await NatsBroker(f"{server.url}?{query}&timeout=20").connect()


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    with own_nats(tmp_path, jetstream=False) as server, pytest.raises(DragomanError, match="JetStream"):
        await NatsBroker(server.url).connect()


async def test_a_message_that_is_published_twice_is_stored_once(nats_server: Nats) -> None:
    broker = await connected(nats_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    message = Message(channel, b"x", headers=(("message-id", b"\xff1"),))
    [first] = await broker.publish([message])
    [second] = await broker.publish([message])
    assert first == second
    # Sent back from the dead letters on purpose: it must not be taken for a repetition.
    await broker.publish([message._replace(headers=(*message.headers, ("dragoman-replays", b"1")))])
    assert broker.log().partitions(channel) == {0: (0, 2)}
    await broker.close()


async def test_what_is_published_without_a_server_fails_and_is_not_sent_later(tmp_path: Path) -> None:
    with own_nats(tmp_path) as server:
        broker = await connected(f"{server.url}?timeout=20")
        await broker.create(Channel("c", 1))
        await broker.publish([Message("c", b"before")])
        server.kill()
        with pytest.raises(BrokerUnavailable):
            await broker.publish([Message("c", b"lost")])
        await asyncio.to_thread(server.restart)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                await broker.publish([Message("c", b"after")])
                break
            except BrokerUnavailable:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
        payloads = {message.payload for message in await received(broker, "c", 2)}
        assert payloads == {b"before", b"after"}
        await broker.close()


async def test_a_message_is_never_dropped_however_often_it_comes(nats_server: Nats) -> None:
    broker = await connected(nats_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"poison")])
    receiver = await broker.subscribe(Subscription((channel,), "g"))
    for attempt in range(1, 21):
        [message] = await receiver.receive(1, PATIENCE)
        assert (message.payload, message.attempt) == (b"poison", attempt)
        await receiver.release([message])
    await broker.close()


async def test_a_message_that_is_too_large_is_refused_by_itself(nats_server: Nats) -> None:
    broker = await connected(nats_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    with pytest.raises(EncodeError) as caught:
        await broker.publish([Message(channel, b"x" * 1_100_000)])
    assert caught.value.code == "message.too-large"
    await broker.publish([Message(channel, b"small")])
    assert [message.payload for message in await received(broker, channel, 1)] == [b"small"]
    await broker.close()


async def test_a_message_is_received_however_large_the_server_allows_it_to_be(tmp_path: Path) -> None:
    with own_nats(tmp_path, "max_payload: 10MB") as server:
        broker = await connected(server.url)
        channel = f"c-{uuid4().hex}"
        await broker.create(Channel(channel, 1))
        sent = [b"before", bytes(9 << 20), b"after"]
        await broker.publish([Message(channel, payload) for payload in sent])
        assert [message.payload for message in await received(broker, channel, 3)] == sent
        await broker.close()


async def test_a_channel_is_there_until_all_of_it_is_deleted(tmp_path: Path) -> None:
    users = """authorization { users: [
        { user: free, password: right }
        { user: held, password: right, permissions: {
            publish: { deny: ["$JS.API.STREAM.DELETE.dragoman-c-1"] } } }
    ] }"""
    with own_nats(tmp_path, users) as server:
        place = f"127.0.0.1:{server.port}"
        broker = await connected(f"nats://held:right@{place}")
        await broker.create(Channel("c", 3))
        await broker.publish([Message("c", b"old", partition=number) for number in range(3)])
        with pytest.raises(AccessRefused):
            await broker.delete("c")
        assert await broker.channels() == ["c"]
        await broker.close()

        broker = await connected(f"nats://free:right@{place}")
        await broker.delete("c")
        await broker.create(Channel("c", 3))
        log = broker.log()
        assert set(log.partitions("c").values()) == {(0, 0)}
        log.close()
        await broker.close()


async def test_messages_of_other_programs_are_received_and_ours_read_by_them(nats_server: Nats) -> None:
    broker = await connected(nats_server.url)
    channel = f"c-{uuid4().hex}"
    await broker.create(Channel(channel, 1))
    client = await nats.connect(nats_server.url)
    stream = client.jetstream()
    await stream.publish(f"dragoman.{channel}.0", b"foreign", headers={"Their": "header"})
    await broker.publish([Message(channel, b"ours", key=b"k")])
    assert [message.payload for message in await received(broker, channel, 2)] == [b"foreign", b"ours"]
    found = await stream.get_msg(f"dragoman-{channel}-0", 2)
    assert found.data == b"ours"
    await client.close()
    await broker.close()


async def test_a_delayed_message_outlives_its_publisher(nats_server: Nats) -> None:
    publisher = await connected(nats_server.url)
    channel = f"c-{uuid4().hex}"
    await publisher.create(Channel(channel, 3))
    headers = (("h", b"\x00\xff"), ("h", b"2"))
    sent = [
        Message(channel, None, key=b"k", headers=headers),
        Message(channel, b"", partition=2, timestamp=5),
    ]
    await publisher.publish(sent, delay=0.3)
    await publisher.close()
    broker = await connected(nats_server.url)
    found = {message.key: message for message in await received(broker, channel, 2)}
    assert (found[b"k"].payload, found[b"k"].headers) == (None, headers)
    assert (found[None].payload, found[None].partition, found[None].timestamp) == (b"", 2, 5)
    await broker.close()


async def test_settings_of_a_channel_are_those_of_its_streams(nats_server: Nats) -> None:
    broker = await connected(nats_server.url)
    channel = Channel(f"c-{uuid4().hex}", 2, retention=3600.0, settings={"max_msg_size": "10"})
    await broker.create(channel)
    assert await broker.describe(channel.name) == channel
    with pytest.raises(DragomanError):
        await broker.publish([Message(channel.name, b"x" * 11)])
    for settings in ({"no_such": "1"}, {"max_bytes": "many"}):
        with pytest.raises(ConfigurationError):
            await broker.create(Channel("c", settings=settings))
    await broker.close()


async def test_those_who_come_first_and_at_once_get_in_and_the_server_lives(tmp_path: Path) -> None:
    """Each makes the streams that all need, or finds them while another makes them."""

    async def come(broker: NatsBroker) -> None:
        await broker.create(Channel("c", 2))
        await broker.subscribe(Subscription(("c",), "g"))
        await broker.publish([Message("c", b"x")], delay=0.01)
        await broker.lag("c")

    with own_nats(tmp_path) as server:
        for number in range(20):
            brokers = [await connected(f"{server.url}?prefix=round{number}") for _ in range(6)]
            await asyncio.gather(*(come(broker) for broker in brokers))
            await asyncio.gather(*(broker.close() for broker in brokers))
