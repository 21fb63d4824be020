"""A broker that dies under a running stream: the stream waits, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.pipeline.source.channels import V1, loans
from tests.pipeline.source.over_brokers import Elsewhere
from tests.services.redis import Redis

from dragoman.pipeline import Flow, Pipeline

PATIENCE = 120.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


def test_a_stream_waits_for_its_broker_and_goes_on(spark: Any, tmp_path: Path, redis_server: Redis) -> None:
    place = Elsewhere(tmp_path, redis_server.url)
    channel = f"away-{uuid4().hex}"
    [schema] = place.register(f"{channel}-value", V1)
    place.create(channel)

    def publish(ids: range) -> None:
        place.publish([one._replace(channel=channel) for one in loans(schema, V1, ids)])

    publish(range(100))
    flow = Flow(channel, table="loans")
    with Pipeline(
        spark, [flow], str(tmp_path / "tables"), broker=place.broker, registry=place.registry
    ) as pipeline:
        query = pipeline.start(flow)
        until(lambda: pipeline.table(flow).count() == 100)
        redis_server.kill()
        try:
            # Some triggers' worth of time: a stream that minds would have failed by then.
            assert not query.awaitTermination(3)
        finally:
            redis_server.restart()
        publish(range(100, 200))
        until(lambda: pipeline.table(flow).count() >= 200)
        assert query.isActive
        assert pipeline.table(flow).count() == 200
        query.stop()
