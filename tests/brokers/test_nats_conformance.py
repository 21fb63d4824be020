"""NATS passes the suite that every broker has to pass, killed and restarted in the middle."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness
from dragoman.testing.proxy import Proxy
from tests.services.nats import Nats


class TestNats(BrokerSuite):
    @pytest.fixture
    def harness(self, nats_server: Nats) -> Harness:
        def restart() -> None:
            nats_server.kill()
            nats_server.restart()

        # Members that die are noticed by their connections: a slow machine does not make the others hang.
        options = "lease=300&handover=2"
        return Harness(
            f"{nats_server.url}?{options}&timeout=60",
            restart=lambda: asyncio.to_thread(restart),
            behind=lambda: Proxy(f"{nats_server.url}?{options}&timeout=20"),
        )
