"""RabbitMQ's own troubles: lost connections, missing queues, foreign messages, delays."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from uuid import uuid4

import aiormq
import pytest
from pamqp.commands import Basic

from dragoman.adapters.rabbitmq import RabbitmqBroker, names, positions, share
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.options import options_of
from dragoman.adapters.rabbitmq.session import Session
from dragoman.core.broker import Receiver, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    EncodeError,
    Unsupported,
)
from dragoman.core.message import Message
from tests.services.rabbitmq import Rabbitmq

PATIENCE = 60.0


@pytest.fixture
async def broker(rabbitmq_server: Rabbitmq) -> AsyncIterator[RabbitmqBroker]:
    broker = RabbitmqBroker(rabbitmq_server.url)
    await broker.connect()
    yield broker
    await broker.close()


@pytest.fixture
async def channel(broker: RabbitmqBroker) -> str:
    name = f"own-{uuid4().hex}"
    await broker.create(Channel(name, 1))
    return name


@pytest.fixture
async def plain(rabbitmq_server: Rabbitmq) -> AsyncIterator[aiormq.abc.AbstractChannel]:
    """An AMQP channel of somebody who does not know of us."""
    connection = await aiormq.connect(rabbitmq_server.url.replace("rabbitmq://", "amqp://"))
    yield await connection.channel()
    await connection.close()


async def receive(receiver: Receiver, count: int = 1) -> list[Message]:
    deadline, found = time.monotonic() + PATIENCE, list[Message]()
    while len(found) < count and time.monotonic() < deadline:
        found += await receiver.receive(count - len(found), 1.0)
    assert len(found) == count
    return found


async def receive_stubbornly(receiver: Receiver, count: int) -> list[Message]:
    """The receiver may have been looking around when the connection was lost, and tells so first."""
    with contextlib.suppress(BrokerUnavailable):
        return await receive(receiver, count)
    return await receive(receiver, count)


async def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def publish_stubbornly(broker: RabbitmqBroker, message: Message) -> None:
    """The publisher's connection may take a moment longer to find out that it is gone."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            await broker.publish([message])
            return
        except BrokerUnavailable:
            assert time.monotonic() < deadline


def cut_all_connections(server: Rabbitmq) -> None:
    server.evaluate('ok = rabbit_networking:close_all_connections(<<"by a test">>).\n')


async def test_after_a_lost_connection_publishing_and_receiving_go_on(
    broker: RabbitmqBroker, channel: str, rabbitmq_server: Rabbitmq
) -> None:
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"before")])
    [held] = await receive(receiver)
    cut_all_connections(rabbitmq_server)
    await until(lambda: receiver.lost(held))
    await publish_stubbornly(broker, Message(channel, b"after"))
    again = await receive_stubbornly(receiver, 2)
    assert [(message.payload, message.attempt) for message in again] == [(b"before", 2), (b"after", 1)]


async def test_a_message_that_no_queue_would_get_is_an_error(
    broker: RabbitmqBroker, channel: str, plain: aiormq.abc.AbstractChannel
) -> None:
    await plain.queue_unbind(f"{channel}/0", channel, "0")
    with pytest.raises(BrokerUnavailable, match="no queue"):
        await broker.publish([Message(channel, b"x")])
    await plain.queue_bind(f"{channel}/0", channel, "0")
    await broker.publish([Message(channel, b"y")])
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    assert (await receive(receiver))[0].payload == b"y"


async def test_a_channel_deleted_and_made_anew_under_a_receiver_is_read_from_its_beginning(
    broker: RabbitmqBroker, channel: str
) -> None:
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"%d" % number) for number in range(5)])
    found = await receive(receiver, 5)
    await receiver.acknowledge(found[-1:])
    await broker.delete(channel)
    await until(lambda: receiver.lost(found[-1]))
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"new")])
    assert (await receive(receiver))[0].payload == b"new"


async def test_short_delays_do_not_wait_for_long_ones(broker: RabbitmqBroker, channel: str) -> None:
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"long")], delay=900.0)
    await broker.publish([Message(channel, b"short")], delay=0.05)
    assert (await receive(receiver))[0].payload == b"short"


async def test_messages_of_any_amqp_client_are_received(
    broker: RabbitmqBroker, channel: str, plain: aiormq.abc.AbstractChannel
) -> None:
    properties = Basic.Properties(headers={"colour": "blue", "size": 3}, message_id="1", content_type="a/b")
    await plain.basic_publish(b"foreign", exchange=channel, routing_key="0", properties=properties)
    [message] = await receive(await broker.subscribe(Subscription((channel,), "group")))
    assert (message.payload, message.key) == (b"foreign", None)
    assert message.headers == (("colour", b"blue"), ("size", b"3"))


async def test_others_may_bind_queues_of_their_own_to_a_channel(
    broker: RabbitmqBroker, channel: str, plain: aiormq.abc.AbstractChannel
) -> None:
    queue = (await plain.queue_declare(exclusive=True)).queue or ""
    await plain.queue_bind(queue, channel, "0")
    await broker.publish([Message(channel, b"for all", key=b"k", headers=(("a", b"1"),))])
    found = await plain.basic_get(queue, no_ack=True)
    headers = found.header.properties.headers or {}
    assert (found.body, headers["dragoman-key"], headers["a"]) == (b"for all", b"k", b"1")


async def test_a_member_that_prefetches_much_leaves_it_uncounted(
    broker: RabbitmqBroker, channel: str
) -> None:
    """What was read ahead and never handed out was not tried."""
    first = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"%d" % number) for number in range(50)])
    await receive(first, 1)
    await first.close()
    second = await broker.subscribe(Subscription((channel,), "group"))
    assert [message.attempt for message in await receive(second, 50)] == [2] + [1] * 49


async def test_a_wrong_password_is_refused_and_not_repeated(rabbitmq_server: Rabbitmq) -> None:
    stranger = RabbitmqBroker(rabbitmq_server.url.replace("guest:guest", "guest:s3cret"))
    with pytest.raises(AccessRefused) as caught:
        await stranger.connect()
    assert "s3cret" not in str(caught.value)
    elsewhere = RabbitmqBroker(f"{rabbitmq_server.url}nowhere")
    with pytest.raises(AccessRefused):
        await elsewhere.connect()


async def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(BrokerUnavailable):
        await RabbitmqBroker("rabbitmq://127.0.0.1:1/").connect()
    with pytest.raises(BrokerUnavailable, match="not connected"):
        await RabbitmqBroker("rabbitmq://127.0.0.1:1/").publish([Message("a", b"")])


async def test_settings_and_retention_are_kept_and_cannot_change(broker: RabbitmqBroker) -> None:
    name = f"own-{uuid4().hex}"
    wanted = Channel(name, 1, 3600.0, {"max_bytes": "1000000", "segment_bytes": "100000"})
    await broker.create(wanted)
    assert await broker.describe(name) == wanted
    with pytest.raises(Unsupported, match="policy"):
        await broker.alter(Channel(name, 1, 60.0, wanted.settings))
    for settings in ({"colour": "blue"}, {"max_bytes": "many"}):
        with pytest.raises(ConfigurationError):
            await broker.create(Channel(f"{name}-other", 1, settings=settings))
    await broker.delete(name)
    with pytest.raises(ChannelNotFound):
        await broker.describe(name)


async def test_two_that_create_a_channel_at_once_make_one(rabbitmq_server: Rabbitmq) -> None:
    brokers = [RabbitmqBroker(rabbitmq_server.url) for _ in range(3)]
    name = f"own-{uuid4().hex}"
    await asyncio.gather(*(broker.connect() for broker in brokers))
    made = await asyncio.gather(*(broker.create(Channel(name, 1)) for broker in brokers))
    assert sorted(made) == [False, False, True]
    await asyncio.gather(*(broker.close() for broker in brokers))


async def test_names_too_long_for_the_server_are_refused(broker: RabbitmqBroker, channel: str) -> None:
    with pytest.raises(ConfigurationError, match="too long"):
        await broker.subscribe(Subscription((channel,), "g" * 250))


async def test_without_counting_deliveries_the_capability_is_gone(rabbitmq_server: Rabbitmq) -> None:
    assert RabbitmqBroker(rabbitmq_server.url).capabilities.delivery_count
    quick = RabbitmqBroker(f"{rabbitmq_server.url}?count_deliveries=false")
    assert not quick.capabilities.delivery_count


def own_vhost(server: Rabbitmq) -> str:
    """The URL of a new vhost, where nothing of ours is."""
    vhost = f"v{uuid4().hex}"
    server.evaluate(
        f'rabbit_vhost:add(<<"{vhost}">>, <<"test">>),'
        f'rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"{vhost}">>,'
        '<<".*">>, <<".*">>, <<".*">>, <<"test">>).\n'
    )
    return f"{server.url}{vhost}"


async def test_those_who_come_first_and_at_once_get_in(rabbitmq_server: Rabbitmq) -> None:
    """The catalog, the channel and the queue of a delay are made by one of them, and found by the others."""

    async def come(url: str) -> RabbitmqBroker:
        broker = RabbitmqBroker(url)
        await broker.connect()
        await broker.create(Channel("c", 1))
        await broker.publish([Message("c", b"x")], delay=0.01)
        return broker

    for _ in range(5):
        url = own_vhost(rabbitmq_server)
        brokers = await asyncio.gather(*(come(url) for _ in range(6)))
        await asyncio.gather(*(broker.close() for broker in brokers))


async def test_a_catalog_whose_maker_died_on_the_way_is_made_whole(rabbitmq_server: Rabbitmq) -> None:
    url = own_vhost(rabbitmq_server)
    connection = await aiormq.connect(url.replace("rabbitmq://", "amqp://"))
    unborn = {"x-queue-type": "stream"}
    await (await connection.channel()).queue_declare("dragoman/catalog", durable=True, arguments=unborn)
    await connection.close()
    broker = RabbitmqBroker(url)
    await broker.connect()
    assert await broker.channels() == []
    await broker.create(Channel("first", 1))
    assert await broker.channels() == ["first"]
    await broker.close()


async def test_a_place_is_found_although_another_birth_stands_behind_it(
    broker: RabbitmqBroker, channel: str, rabbitmq_server: Rabbitmq
) -> None:
    """As when a server that is slow to answer is taken for one that has no record yet."""
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"done"), Message(channel, b"open")])
    await receiver.acknowledge((await receive(receiver, 2))[:1])
    await receiver.close()
    link = Link(options_of(rabbitmq_server.url))
    async with link.borrowed(confirms=True) as pipe:
        await pipe.bear(names.position(channel, 0, "group", ""), positions.DURABLE)
    await link.close()
    assert [lag.behind for lag in await broker.lag(channel, "group")] == [1]
    [message] = await receive(await broker.subscribe(Subscription((channel,), "group")))
    assert (message.payload, message.attempt) == (b"open", 2)


async def test_a_read_that_breaks_off_is_not_gone_on_with(
    broker: RabbitmqBroker, channel: str, rabbitmq_server: Rabbitmq
) -> None:
    """What it had taken by then would be left out."""
    await broker.publish([Message(channel, b"x")])
    link = Link(options_of(rabbitmq_server.url))
    session = Session(link, channel, 0, end=2)
    await session.open(0)
    assert session.continues(0)
    link.options = replace(link.options, timeout=0.1)
    with pytest.raises(BrokerUnavailable):
        await session.take(2, 100, 1 << 20)
    assert not session.continues(0)
    await link.close()


async def test_headers_that_no_frame_can_hold_are_refused_and_disturb_nobody(
    broker: RabbitmqBroker, channel: str
) -> None:
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    with pytest.raises(EncodeError, match="too large"):
        await broker.publish([Message(channel, b"x", headers=(("large", bytes(200_000)),))])
    await broker.publish([Message(channel, b"y", headers=(("small", bytes(100_000)),))])
    assert (await receive(receiver))[0].payload == b"y"


async def test_a_member_whose_crew_is_gone_joins_again(
    broker: RabbitmqBroker, channel: str, plain: aiormq.abc.AbstractChannel
) -> None:
    """So it is when the node that had the crew's queue dies, and the member's connection does not."""
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"x")])
    [held] = await receive(receiver)
    await plain.queue_delete(names.crew(channel, "group"))
    [again] = await receive(receiver)
    assert (again.payload, again.attempt) == (held.payload, 2)
    await receiver.acknowledge([again])
    assert (await plain.queue_declare(names.crew(channel, "group"), passive=True)).consumer_count == 1


async def test_a_slow_handler_does_not_let_deliveries_wait_until_the_server_gives_up(
    channel: str, rabbitmq_server: Rabbitmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "AWAKE", 0.0)
    broker = RabbitmqBroker(f"{rabbitmq_server.url}?prefetch=10")
    await broker.connect()
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    await broker.publish([Message(channel, b"%d" % number) for number in range(100)])
    await receive(receiver)
    [mine] = receiver._membership.shares.values()
    deadline = time.monotonic() + PATIENCE
    while len(mine._log) < 100:
        assert time.monotonic() < deadline
        await receiver.extend()
        await asyncio.sleep(0.01)
    await broker.close()
