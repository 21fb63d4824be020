"""Mosquitto saves its database now and then; what is confirmed was saved, and few saves are enough."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.adapters.mqtt import MqttBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message
from tests.brokers.certificates import make_certificates
from tests.brokers.mqtt_servers import PATIENCE, opened, received, serving, unique
from tests.services.mosquitto import Mosquitto

INTERVAL = 250
"""Changes after which the test server saves."""


def saves(server: Mosquitto) -> int:
    return server.log().count("Saving in-memory database")


async def survives_a_kill(server: Mosquitto, url: str) -> None:
    """A message that is passed on at once, which the server does not count as a change."""
    name = unique()
    async with opened(url) as broker:
        await broker.create(Channel(name, partitions=1))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        await broker.publish([Message(name, b"confirmed")])
        await asyncio.to_thread(server.kill)
        await receiver.close()
    await asyncio.to_thread(server.restart)
    async with opened(url) as broker:
        receiver = await broker.subscribe(Subscription((name,), "group"))
        assert [message.payload for message in await received(receiver, 1)] == [b"confirmed"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("interval", [1, INTERVAL, 1000])
async def test_what_is_confirmed_was_saved(tmp_path: Path, interval: int, qos: int) -> None:
    async with serving(tmp_path, autosave_interval=str(interval)) as server:
        await survives_a_kill(server, f"{server.url}?qos={qos}&autosave_interval={interval}")


async def test_what_is_confirmed_was_saved_by_the_settings_that_are_recommended(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await survives_a_kill(server, server.url)


async def test_what_is_confirmed_was_saved_though_tls_brings_many_packets_at_once(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    settings = {"cafile": str(made.ca), "certfile": str(made.server), "keyfile": str(made.server_key)}
    async with serving(tmp_path, **settings) as server:
        await survives_a_kill(server, f"{server.url}?tls=true&ca={made.ca}")


async def test_a_group_that_is_there_was_saved(tmp_path: Path) -> None:
    """Otherwise a server that is killed would not know for whom to keep the next message."""
    async with serving(tmp_path) as server:
        name = unique()
        async with opened(server.url) as broker:
            await broker.create(Channel(name, partitions=1))
            await broker.subscribe(Subscription((name,), "group"))
            await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        async with opened(server.url) as broker:
            await broker.publish([Message(name, b"kept")])
            receiver = await broker.subscribe(Subscription((name,), "group"))
            assert [message.payload for message in await received(receiver, 1)] == [b"kept"]


async def test_one_save_serves_all_who_publish_meanwhile(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, opened(server.url) as broker:
        name = unique()
        await broker.create(Channel(name))
        await broker.publish([Message(name, b"to have a connection")])
        before = saves(server)
        await asyncio.gather(*(broker.publish([Message(name, b"%d" % number)]) for number in range(500)))
        assert 0 < saves(server) - before <= 10


async def test_one_save_serves_all_partitions_that_a_member_takes(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, opened(server.url) as broker:
        name = unique()
        await broker.create(Channel(name, partitions=30))
        before = saves(server)
        await broker.subscribe(Subscription((name,), "group"))
        assert 0 < saves(server) - before <= 15


async def test_neither_a_backlog_nor_its_acknowledgement_makes_the_server_save_each_time(
    tmp_path: Path,
) -> None:
    """A save writes the whole database, so it takes the longer the more messages wait."""
    async with serving(tmp_path) as server, opened(f"{server.url}?receive_maximum=10") as broker:
        name, count = unique(), 2000
        await broker.create(Channel(name, partitions=1))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        before = saves(server)
        await broker.publish([Message(name, b"%d" % number) for number in range(count)])
        for _ in range(count // 10):
            await receiver.acknowledge(await received(receiver, 10))
        # Others that sit down and give signs of life are changes, too.
        assert saves(server) - before <= 2 * count // INTERVAL + 10


async def test_no_more_is_handed_out_than_the_server_has_read_acknowledgements_for(tmp_path: Path) -> None:
    """They would all come again if this process died."""
    async with serving(tmp_path) as server, opened(server.url) as broker:
        name, count = unique(), 3000
        await broker.create(Channel(name, partitions=1))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        await broker.publish([Message(name, b"%d" % number) for number in range(count)])
        found = await received(receiver, 10)
        await receiver.acknowledge(found)
        # The server has answered, so there is more here than may be handed out while it is silent.
        found += await received(receiver, 400)
        server.pause()
        try:
            ahead = found[10:]
            await receiver.acknowledge(ahead)
            assert not await receiver.receive(100, 0.5)
        finally:
            server.resume()
        while len(found) < count:
            some = await received(receiver, 1)
            await receiver.acknowledge(some)
            found += some
        assert [message.payload for message in found] == [b"%d" % number for number in range(count)]


async def test_all_who_wait_for_a_save_are_told_that_the_server_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        broker = MqttBroker(server.url)
        await broker.connect()
        name = unique()
        await broker.create(Channel(name))
        await broker.publish([Message(name, b"first")])
        server.pause()
        waiting = [asyncio.create_task(broker.publish([Message(name, b"x")])) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.to_thread(server.kill)
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [BrokerUnavailable] * 5
        await asyncio.to_thread(server.restart)
        async with asyncio.timeout(PATIENCE):
            await broker.publish([Message(name, b"again")])
        await broker.close()
