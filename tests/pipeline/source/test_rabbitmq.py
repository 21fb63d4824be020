"""The source reads RabbitMQ streams like any other log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.pipeline.source.channels import V1, V2, Place, loans
from tests.services.rabbitmq import Rabbitmq

from dragoman.adapters.rabbitmq import RabbitmqBroker
from dragoman.core.channel import Channel
from dragoman.core.message import Message


@dataclass(frozen=True)
class Streams(Place):
    """A channel of RabbitMQ and a registry in a folder."""

    server: str = ""
    channel: str = ""

    @property
    def broker(self) -> str:
        return self.server

    def fill(self, messages: list[Message], create: bool = False) -> None:
        async def run() -> None:
            broker = RabbitmqBroker(self.server)
            await broker.connect()
            if create:
                await broker.create(Channel(self.channel, 2))
            await broker.publish([message._replace(channel=self.channel) for message in messages])
            await broker.close()

        asyncio.run(run())


def test_batches_and_streams_read_every_message_once(
    spark: Any, rabbitmq_server: Rabbitmq, tmp_path: Path
) -> None:
    channel = f"loans-{uuid4().hex}"
    place = Streams(tmp_path, rabbitmq_server.url, channel)
    place.register(f"{channel}-value", V1, V2)
    place.fill([*loans(1, V1, range(60)), *loans(2, V2, range(60, 100), 1, note="n")], create=True)
    options = place.options(channel)

    batch = spark.read.format("dragoman").options(**options).load()
    assert sorted(row["id"] for row in batch.select("id").collect()) == list(range(100))

    def run() -> int:
        query = (
            spark.readStream.format("dragoman")
            .options(**options)
            .load()
            .select("id")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    assert run() == 100
    place.fill(loans(1, V1, [100, 101], 1))
    assert run() == 2
    found = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row["id"] for row in found) == list(range(102))
