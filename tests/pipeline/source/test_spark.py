"""The source on a real Spark session: few jobs, each proving much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from tests.pipeline.source.channels import V1, V2, V3, Place, loans

from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message
from dragoman.pipeline import decode, reading, stream
from dragoman.pipeline.source import DragomanSource


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.register("loans-value", V1, V2, V3)
    place.create("loans")
    return place


def test_a_batch_is_typed_and_found_without_registration(spark: Any, place: Place) -> None:
    place.publish(
        [*loans(1, V1, [1]), *loans(3, V3, [2], 1, note="x", term=36), Message("loans", b"bad", partition=0)]
    )
    fresh = spark.newSession()

    frame = fresh.read.format("dragoman").options(**place.options()).load()
    found = {row["id"]: row for row in frame.collect()}

    assert frame.schema.simpleString().startswith(
        "struct<id:bigint,amount:double,note:string,term:int,_meta:struct<"
    )
    assert (found[1]["term"], found[2]["term"], found[2]["note"]) == (12, 36, "x")
    assert (
        found[None]["_error"]["code"] == "message.frame.truncated" and bytes(found[None]["_frame"]) == b"bad"
    )


def test_messages_as_their_writers_wrote_them_are_variants(spark: Any, place: Place) -> None:
    place.publish([*loans(1, V1, [1]), *loans(3, V3, [2], note="x", term=36)])

    frame = spark.read.format("dragoman").options(**place.options(version="writer")).load()
    found = frame.selectExpr(
        "variant_get(value, '$.term', 'int') AS term", "to_json(value) AS text"
    ).collect()

    assert [row["term"] for row in found] == [None, 36]
    assert found[0]["text"] == '{"amount":10,"id":1}'


def test_a_stream_goes_on_where_it_stopped_and_keeps_to_its_limit(
    spark: Any, place: Place, tmp_path: Path
) -> None:
    place.publish([*loans(1, V1, range(10)), *loans(2, V2, range(10, 25), 1, note="n")])

    def run() -> list[int]:
        stream = spark.readStream.format("dragoman").options(**place.options(maxRowsPerTrigger=10)).load()
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    assert run() == [10, 10, 5]
    place.publish(loans(1, V1, [100, 101]))
    assert run() == [2]
    ids = [row["id"] for row in spark.read.parquet(str(tmp_path / "table")).select("id").collect()]
    assert sorted(ids) == [*range(25), 100, 101]


def test_frames_from_any_source_can_be_decoded(spark: Any, place: Place) -> None:
    good = loans(2, V2, [7], note="n")[0].payload
    frame = spark.createDataFrame([("a", good), ("b", b"bad"), ("c", None)], "key string, value binary")

    found = decode(frame, "value", "loans-value", 3, registry=place.registry, into="loan").collect()

    assert [row["key"] for row in found] == ["a", "b", "c"]
    assert found[0]["loan"].asDict() == {"id": 7, "amount": 70.0, "note": "n", "term": 12}
    assert found[1]["loan"] is None and found[1]["_error"]["code"] == "message.frame.truncated"
    assert found[2]["loan"] is None and found[2]["_error"] is None


class Pushed(DataSource):
    """A source with filter push-down, as the documentation shows it."""

    @classmethod
    def name(cls) -> str:
        return "pushed"

    def schema(self) -> str:
        return "k int"

    def reader(self, schema: Any) -> PushedReader:
        return PushedReader()


class PushedReader(DataSourceReader):
    wanted: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            if isinstance(each, EqualTo):
                self.wanted = each.value
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(30):
            if self.wanted is None or number % 3 == self.wanted:
                yield (number % 3,)


def test_spark_still_leaks_pushed_filters_which_is_why_the_source_takes_none(spark: Any) -> None:
    """When this fails, Spark has mended it, and ranges could become filters."""
    spark.dataSource.register(Pushed)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pushed").load()
        counts = [frame.count(), frame.where("k = 0").count(), frame.count()]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")

    assert counts == [30, 10, 10]


def test_a_stream_waits_for_a_broker_that_is_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.publish(loans(1, V1, [1, 2, 3]))
    source = DragomanSource(place.options())
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    open_log, answers = reading.open_log, iter([False, True, True, True, True, False])

    def sometimes(broker: str) -> Any:
        if not next(answers, True):
            raise BrokerUnavailable("Nobody answers.")
        return open_log(broker)

    monkeypatch.setattr(stream, "open_log", sometimes)
    monkeypatch.setattr(reading, "open_log", sometimes)

    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"loans": {"0": 3, "1": 0}}
    found = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert [row["id"] for batch in found for row in batch.to_pylist()] == [1, 2, 3]
    assert next(answers, None) is None
