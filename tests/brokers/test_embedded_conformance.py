"""The embedded broker passes the suite that every broker has to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.testing.brokers import BrokerSuite, Harness


class TestEmbedded(BrokerSuite):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        # Members that die are noticed by their locks. A long lease: a slow machine does not make them hang.
        return Harness(f"embedded://{tmp_path}/data?lease=300&handover=2&segment_bytes=20000")
