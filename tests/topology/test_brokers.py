"""Every broker is an admin: one topic over each of the real servers."""

from __future__ import annotations

import uuid

import pytest

from dragoman.topology import Flag, Topology
from tests.topology.records import Note, Price
from tests.topology.world import Inbox, allowed, until

SERVERS = ("redis", "nats", "mosquitto", "rabbitmq", "kafka")


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_server").url
    return address


async def test_programs_on_a_real_broker_talk(url: str) -> None:
    """A receiver in one program, a sender in another, and nothing said by anybody else."""
    topic, inbox, registry = f"prices-{uuid.uuid4().hex[:8]}", Inbox(), allowed()
    async with Topology([url], registry=registry) as receiving, Topology([url], registry=registry) as sending:
        await receiving.offer(topic, inbox).wait(60)
        publisher = await sending.publisher(topic, timeout=60)
        for number in range(10):
            await publisher.send(Price("single", float(number)))
        await publisher.send_multipart(Price("group", 10.0), Flag.FIRST)
        await publisher.send_multipart(Note("with a note"), Flag.LAST)
        # A broker may deliver again what it has delivered, but nothing else.
        await until(lambda: any(price.symbol == "group" for price in inbox.got))
        assert list(dict.fromkeys(price.bid for price in inbox.got)) == [
            float(number) for number in range(11)
        ]
        assert inbox.multiparts[-1].get(Note) == Note("with a note")
        assert receiving.metrics.snapshot()[topic]["missing"] == 0
