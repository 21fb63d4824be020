"""RabbitMQ passes the suite that every broker has to pass, with its server killed and restarted."""

from __future__ import annotations

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness
from tests.services.rabbitmq import Rabbitmq


class TestRabbitmq(BrokerSuite):
    @pytest.fixture
    def harness(self, rabbitmq_server: Rabbitmq) -> Harness:
        return Harness(
            f"{rabbitmq_server.url}?handover=2",
            restart=rabbitmq_server.kill_and_restart,
            behind=rabbitmq_server.proxy,
        )
