"""Kafka passes the suite that every broker has to pass, on a real server that is killed in between."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness
from tests.services.kafka import Kafka

OPTIONS = (
    "session.timeout.ms=4000&heartbeat.interval.ms=500&topic.metadata.refresh.interval.ms=500&handover=0.3"
)


class TestKafka(BrokerSuite):
    @pytest.fixture
    def harness(self, kafka_server: Kafka) -> Harness:
        async def restart() -> None:
            kafka_server.kill()
            await asyncio.to_thread(kafka_server.restart)

        return Harness(f"{kafka_server.url}?{OPTIONS}", restart=restart)
