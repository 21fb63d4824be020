"""The source, the pipeline and publishing on a real Kafka."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.pipeline.source.channels import V1, V2, Place, loans
from tests.services.kafka import Kafka

from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.source import DragomanSource

COLUMNS = StructType(
    [StructField("id", LongType()), StructField("amount", LongType()), StructField("note", StringType())]
)


@dataclass(frozen=True)
class KafkaPlace(Place):
    """A channel of its own on a Kafka server, and a registry in a folder."""

    url: str
    channel: str

    @property
    def broker(self) -> str:
        return self.url

    def sent(self, schema_id: int, schema: Any, ids: range, partition: int = 0, **more: Any) -> None:
        start = 1_600_000_000_000
        self.publish(
            [
                message._replace(channel=self.channel, timestamp=start + 1000 * number)
                for number, message in zip(ids, loans(schema_id, schema, ids, partition, **more), strict=True)
            ]
        )

    def count(self, channel: str) -> int:
        log = load(BROKERS, scheme_of(self.url))(self.url).log()
        try:
            found = 0
            for partition, (start, end) in log.partitions(channel).items():
                while start < end:
                    part = log.read(channel, partition, start, end)
                    found, start = found + part.count, part.next_offset
            return found
        finally:
            log.close()


@pytest.fixture
def place(tmp_path: Path, kafka_server: Kafka) -> KafkaPlace:
    place = KafkaPlace(tmp_path, kafka_server.url, f"loans-{uuid4().hex}")
    first, second = place.register(f"{place.channel}-value", V1, V2)
    place.create(place.channel)
    place.sent(first, V1, range(20))
    place.sent(second, V2, range(20, 30), 1, note="n")
    place.publish([Message(place.channel, b"bad", partition=0)])
    return place


def test_a_batch_is_bounded_by_offsets_and_by_times(spark: Any, place: KafkaPlace) -> None:
    def ids(**options: str) -> list[int]:
        frame = spark.read.format("dragoman").options(**place.options(place.channel, **options)).load()
        return sorted(row["id"] for row in frame.where("_error IS NULL").select("id").collect())

    offsets = f'{{"{place.channel}": {{"0": 15, "1": 4}}}}'
    assert ids(endingOffsets=offsets) == [*range(15), *range(20, 24)]
    assert ids(startingOffsets="2020-09-13T12:26:58Z") == list(range(18, 30))


def test_each_message_is_in_the_table_once_over_several_runs(spark: Any, place: KafkaPlace) -> None:
    flow = Flow(place.channel)

    def run() -> tuple[list[int], int]:
        target = str(place.folder / "tables")
        made = Pipeline(spark, [flow], target, broker=place.broker, registry=place.registry)
        with made:
            made.run(once=True)
        found = sorted(made.table(flow).read(["id"])["id"].to_pylist())
        return found, made.progress(flow, None).quarantined

    assert run() == (list(range(30)), 1)
    place.sent(1, V1, range(100, 105))
    assert run() == ([*range(30), *range(100, 105)], 1)


def test_a_stream_is_published_once(spark: Any, place: KafkaPlace) -> None:
    target = f"{place.channel}-copy"
    place.register(f"{target}-value", V2)
    place.create(target)

    def once(checkpoint: str) -> None:
        source = spark.readStream.format("dragoman").options(**place.options(place.channel)).load()
        query = (
            source.where("_error IS NULL")
            .select("id", "amount", "note")
            .writeStream.format("dragoman")
            .options(**place.options(target))
            .option("checkpointLocation", str(place.folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)

    once("published")
    assert _settled(place, target, 30) == 30
    # What Spark does after a crash between the last task and its own note of the batch.
    for note in ("0", ".0.crc"):
        (place.folder / "published" / "commits" / note).unlink()
    once("published")
    assert _settled(place, target, 30) == 30


def test_a_task_that_is_tried_again_sends_nothing_twice(place: KafkaPlace) -> None:
    target = f"{place.channel}-copy"
    place.register(f"{target}-value", V2)
    place.create(target)
    batch = pa.record_batch(
        {"id": pa.array([1, 2]), "amount": pa.array([1, 2]), "note": pa.array(["a", None])}
    )

    def job(**options: str) -> None:
        writer = DragomanSource(place.options(target, **options)).writer(COLUMNS, overwrite=False)
        for _ in range(2):
            assert writer.write(iter([batch])).messages == 2

    job()
    assert _settled(place, target, 2) == 2
    job()
    assert _settled(place, target, 4) == 4
    job(application=target)
    job(application=target)
    assert _settled(place, target, 6) == 6


def test_one_application_may_publish_to_several_channels(place: KafkaPlace) -> None:
    batch = pa.record_batch({"id": pa.array([1]), "amount": pa.array([1]), "note": pa.array(["a"])})
    for target in (f"{place.channel}-one", f"{place.channel}-two"):
        place.register(f"{target}-value", V2)
        place.create(target)
        options = place.options(target, application=place.channel)
        writer = DragomanSource(options).writer(COLUMNS, overwrite=False)
        writer.write(iter([batch]))
        assert _settled(place, target, 1) == 1


def _settled(place: KafkaPlace, channel: str, count: int) -> int:
    """How many messages a channel has, once it has so many: a commit is seen a moment after it was made."""
    deadline = time.monotonic() + 60
    while (found := place.count(channel)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
