"""MQTT passes the suite that every broker has to pass, on mosquitto, with both versions of the protocol."""

from __future__ import annotations

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness
from dragoman.testing.brokers.crashes import CrashTests
from dragoman.testing.brokers.delivery import DeliveryTests
from dragoman.testing.brokers.network import NetworkTests
from dragoman.testing.proxy import Proxy
from tests.services.mosquitto import Mosquitto


class TestMqtt5(BrokerSuite):
    @pytest.fixture
    def harness(self, mosquitto_server: Mosquitto) -> Harness:
        server = mosquitto_server
        return Harness(server.url, restart=server.kill_and_restart, behind=server.proxy)


class TestMqtt311(DeliveryTests, CrashTests, NetworkTests):
    """What the older protocol, its envelopes and quality of service 2 change: messages and their safety."""

    @pytest.fixture
    def harness(self, mosquitto_server: Mosquitto) -> Harness:
        server = mosquitto_server
        url = f"{server.url}?version=3.1.1&qos=2&prefix=dragoman-311"
        return Harness(url, restart=server.kill_and_restart, behind=lambda: Proxy(url))
