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
from tests.brokers.mqtt_servers import PATIENCE, opened, serving, unique
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


def test_seats_written_by_earlier_releases_are_kept() -> None:
    written = json.dumps({"member": "m", "sharing": "shared", "durable": True, "before": None}).encode()
    assert read_seat(written) == Seat("m", Sharing.SHARED, True, None, kept=True)
