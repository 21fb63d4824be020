"""The source on Spark over any broker: exact counts, as a batch and as a stream that goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.pipeline.source.channels import V1, Place, loans

from dragoman.core.message import Message


@dataclass(frozen=True)
class Elsewhere(Place):
    """A registry in a folder, and a broker wherever it is."""

    url: str = ""

    @property
    def broker(self) -> str:
        return self.url


def read_everything(spark: Any, folder: Path, url: str) -> None:
    """A batch, then a stream in two goes: each message once."""
    place, channel = Elsewhere(folder, url), f"loans-{uuid4().hex}"
    [id] = place.register(f"{channel}-value", V1)
    place.create(channel)

    def publish(*ids: int) -> None:
        messages: list[Message] = []
        for partition in (0, 1):
            own = [number for number in ids if number % 2 == partition]
            messages += [one._replace(channel=channel) for one in loans(id, V1, own, partition)]
        place.publish(messages)

    def batch() -> list[int]:
        frame = spark.read.format("dragoman").options(**place.options(channel)).load()
        return sorted(row["id"] for row in frame.select("id").collect())

    def stream() -> list[int]:
        query = (
            spark.readStream.format("dragoman")
            .options(**place.options(channel))
            .load()
            .writeStream.format("parquet")
            .option("path", str(folder / "table"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)
        return sorted(row["id"] for row in spark.read.parquet(str(folder / "table")).select("id").collect())

    publish(*range(50))
    assert batch() == list(range(50))
    assert stream() == list(range(50))
    publish(*range(50, 60))
    assert stream() == list(range(60))
