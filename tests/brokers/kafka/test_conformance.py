"""Kafka passes the suite that every broker has to pass, on a real server that is killed in between."""

from __future__ import annotations

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness
from dragoman.testing.proxy import Proxy
from tests.services.kafka import Kafka

OPTIONS = (
    "session.timeout.ms=6000&heartbeat.interval.ms=500&topic.metadata.refresh.interval.ms=500&handover=0.3"
    "&reconnect.backoff.max.ms=500"
)
CUT = "&delivery.timeout.ms=6000&socket.timeout.ms=2000"


class TestKafka(BrokerSuite):
    @pytest.fixture
    def harness(self, kafka_server: Kafka) -> Harness:
        url = f"{kafka_server.url}?{OPTIONS}"
        return Harness(
            url,
            restart=kafka_server.kill_and_restart,
            behind=lambda: Proxy(url + CUT, port=kafka_server.proxy_port, target=kafka_server.proxied_port),
        )
