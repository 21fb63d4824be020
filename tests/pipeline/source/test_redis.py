"""The source reads channels of Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pipeline.source.over_brokers import read_everything
from tests.services.redis import Redis


def test_a_channel_is_read_whole_and_each_message_once(
    spark: Any, tmp_path: Path, redis_server: Redis
) -> None:
    read_everything(spark, tmp_path, redis_server.url)
