"""The memory broker passes the suite that every broker has to pass."""

from __future__ import annotations

from uuid import uuid4

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness


class TestMemory(BrokerSuite):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(f"memory://{uuid4().hex}?lease=300&handover=2", other_processes=False)
