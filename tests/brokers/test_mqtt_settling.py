"""MQTT: who comes to a group waits until all its seats are kept, and tells what is in the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.adapters.mqtt import MqttBroker
from dragoman.adapters.mqtt.control import Control
from dragoman.adapters.mqtt.options import options_of
from dragoman.adapters.mqtt.seats import Seat, Table, read_seat
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message
from tests.brokers.mqtt_servers import PATIENCE, opened, received, serving, unique
from tests.client.waiting import until
from tests.services.mosquitto import Mosquitto

GROUP = "group"


class Ghost:
    """A member that claims a seat and lives, but does not sit down before it is told to."""

    def __init__(self, control: Control, channel: str) -> None:
        self._control = control
        self._table = Table("dragoman", GROUP, channel)

    async def claim(self, *, kept: bool) -> None:
        await self._control.put(
            self._table.seat(0), Seat("ghost", Sharing.SHARED, True, kept=kept).written(), safe=False
        )

    async def live(self) -> None:
        while True:
            await self._control.tell(self._table.beats, b"ghost")
            await asyncio.sleep(1)


@asynccontextmanager
async def ghost_in(url: str, channel: str) -> AsyncIterator[Ghost]:
    control = Control(options_of(url), None)
    await control.open()
    ghost = Ghost(control, channel)
    living = asyncio.create_task(ghost.live())
    await ghost.claim(kept=False)
    try:
        yield ghost
    finally:
        living.cancel()
        await control.close()


@asynccontextmanager
async def subscribing(broker: MqttBroker, channel: str) -> AsyncIterator[asyncio.Task[object]]:
    """Somebody who waits for the ghost, and has the other seat meanwhile."""
    task = asyncio.create_task(broker.subscribe(Subscription((channel,), GROUP)))
    seen = asyncio.Event()

    def told(topic: str, payload: bytes) -> None:
        seat = read_seat(payload)
        if topic.endswith("/1") and seat is not None and seat.kept:
            seen.set()

    await broker._station.watch(Table("dragoman", GROUP, channel).topic + "/+", seen, told)
    async with asyncio.timeout(PATIENCE):
        await seen.wait()
    assert not task.done()
    yield task
    task.cancel()


async def test_who_comes_waits_for_those_who_are_sitting_down(mosquitto_server: Mosquitto) -> None:
    name = unique()
    async with opened(mosquitto_server.url) as broker:
        await broker.create(Channel(name, 2))
        async with ghost_in(mosquitto_server.url, name) as ghost, subscribing(broker, name) as coming:
            await ghost.claim(kept=True)
            async with asyncio.timeout(PATIENCE):
                await coming


async def test_closing_ends_who_waits_and_leaves_nothing(mosquitto_server: Mosquitto) -> None:
    name = unique()
    broker = MqttBroker(mosquitto_server.url)
    await broker.connect()
    await broker.create(Channel(name, 2))
    before = asyncio.all_tasks()
    async with ghost_in(mosquitto_server.url, name), subscribing(broker, name) as coming:
        async with asyncio.timeout(PATIENCE):
            await broker.close()
            with pytest.raises(BrokerUnavailable, match="closed"):
                await coming
    assert asyncio.all_tasks() <= before


async def test_a_server_that_has_no_room_for_a_session_is_told_and_nobody_waits_for_us(
    tmp_path: Path,
) -> None:
    name, seats = unique(), dict[str, Seat | None]()
    async with serving(tmp_path, max_connections="1") as server, opened(server.url) as broker:
        await broker.create(Channel(name, 2))
        with pytest.raises(BrokerUnavailable) as caught:
            await broker.subscribe(Subscription((name,), GROUP))
        assert "claims" not in str(caught.value)
        table = Table("dragoman", GROUP, name)
        await broker._station.watch(
            f"{table.topic}/+", table, lambda topic, raw: seats.update({topic[-1]: read_seat(raw)})
        )
        await broker._station.sync()
    left = [seat for seat in seats.values() if seat is not None]
    assert [seat.member for seat in left] == [None, None]
    # There was room for one session, which is there now.
    assert sorted(seat.kept for seat in left) == [False, True]


async def test_a_partition_moves_once_nothing_of_it_is_in_flight(mosquitto_server: Mosquitto) -> None:
    name, count = unique(), 40
    async with opened(mosquitto_server.url) as one, opened(mosquitto_server.url) as two:
        await one.create(Channel(name, 4))
        first = await one.subscribe(Subscription((name,), GROUP))
        assert first.partitions == 4
        await one.publish([Message(name, b"%d" % number, partition=number % 4) for number in range(count)])
        held = await received(first, count)
        second = await two.subscribe(Subscription((name,), GROUP))
        await until(lambda: len(first.leaving) == 2)
        leaving = {partition for _, partition in first.leaving}
        # Publishing goes through the server after the claims that a member could have made.
        await one.publish([Message(name, b"next", partition=number) for number in range(4)])
        staying = await received(first, 2)
        assert {message.partition for message in staying} == set(range(4)) - leaving
        assert first.partitions == 4
        assert not any(first.lost(message) for message in held)
        await first.release([message for message in held if message.partition in leaving][-1:])
        done = [message for message in held if message.partition not in leaving]
        rest = [message for message in held if message.partition in leaving][:-1]
        await first.acknowledge([*done, *staying, *rest])
        back = [message for message in held if message.partition in leaving][-1]
        found = await received(second, 3)
        assert sorted(message.payload or b"" for message in found) == [back.payload, b"next", b"next"]
        assert (first.partitions, second.partitions) == (2, 2)
        await second.acknowledge(found)


async def test_a_member_that_does_not_finish_gives_its_partition_up_after_the_handover(
    mosquitto_server: Mosquitto,
) -> None:
    name, url = unique(), f"{mosquitto_server.url}?handover=0.1"
    async with opened(url) as one, opened(url) as two:
        await one.create(Channel(name, 2))
        first = await one.subscribe(Subscription((name,), GROUP))
        await one.publish([Message(name, b"%d" % number, partition=number) for number in range(2)])
        held = await received(first, 2)
        second = await two.subscribe(Subscription((name,), GROUP))
        [again] = await received(second, 1)
        assert [first.lost(message) for message in held] == [each.payload == again.payload for each in held]


async def test_a_member_that_leaves_waits_until_the_server_has_read_what_it_acknowledged(
    mosquitto_server: Mosquitto,
) -> None:
    name = unique()
    with mosquitto_server.proxy() as proxy:
        broker = MqttBroker(f"{proxy.url}?timeout=60&keep_alive=600")
        await broker.connect()
        await broker.create(Channel(name, 2))
        receiver = await broker.subscribe(Subscription((name,), GROUP))
        await broker.publish([Message(name, b"%d" % number, partition=number % 2) for number in range(20)])
        held = await received(receiver, 20)
        proxy.stall()
        await receiver.acknowledge(held)
        closing = asyncio.create_task(broker.close())
        # Longer than any time after which it used to hang up by itself.
        await asyncio.wait((closing,), timeout=3)
        proxy.restore()
        async with asyncio.timeout(PATIENCE):
            await closing
    async with opened(mosquitto_server.url) as broker:
        receiver = await broker.subscribe(Subscription((name,), GROUP))
        await broker.publish([Message(name, b"last", partition=number) for number in range(2)])
        assert [message.payload for message in await received(receiver, 2)] == [b"last", b"last"]


def test_seats_written_by_earlier_releases_are_kept() -> None:
    written = json.dumps({"member": "m", "sharing": "shared", "durable": True, "before": None}).encode()
    assert read_seat(written) == Seat("m", Sharing.SHARED, True, None, kept=True)
