"""The source reads channels of NATS JetStream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pipeline.source.over_brokers import read_everything
from tests.services.nats import Nats


def test_a_channel_is_read_whole_and_each_message_once(spark: Any, tmp_path: Path, nats_server: Nats) -> None:
    read_everything(spark, tmp_path, nats_server.url)
