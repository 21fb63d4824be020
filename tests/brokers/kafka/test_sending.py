"""What is particular to sending to Kafka."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.adapters.kafka import KafkaBroker, sending
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message
from tests.brokers.kafka.rigs import PATIENCE, fresh
from tests.services.kafka import Kafka


async def test_whoever_is_publishing_when_the_broker_closes_is_told(
    kafka_server: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not answer, and nobody would wait for its answer any more."""
    with kafka_server.proxy() as proxy:
        broker = KafkaBroker(proxy.url)
        await broker.connect()
        channel = await fresh(broker)
        await broker.publish([Message(channel, b"there")])
        proxy.stall()
        monkeypatch.setattr(sending, "TIMEOUT", 0.2)
        publishing = asyncio.create_task(broker.publish([Message(channel, b"under way")]))
        await asyncio.sleep(0)
        await broker.close()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(BrokerUnavailable):
                await publishing
