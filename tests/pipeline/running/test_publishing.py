"""DataFrames published under a contract."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql.types import BooleanType, LongType, StructField, StructType
from tests.pipeline.source.channels import V2, Place

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.faults import translated
from dragoman.pipeline.source import DragomanSource
from dragoman.pipeline.tables import open_table


def publish(frame: Any, place: Place, channel: str = "loans", **options: str) -> None:
    frame.write.format("dragoman").mode("append").options(**place.options(channel), **options).save()


def loans_of(spark: Any, place: Place, channel: str) -> list[Any]:
    return list(spark.read.format("dragoman").options(**place.options(channel)).load().collect())


@pytest.fixture
def empty(place: Place) -> Place:
    place.register("offers-value", V2)
    place.create("offers")
    return place


def test_rows_become_messages_with_key_and_stable_ids(spark: Any, empty: Place) -> None:
    rows = [Row(id=number, amount=number * 10, note=None if number % 2 else "even") for number in range(50)]
    frame = spark.createDataFrame(rows, "id long, amount long, note string").coalesce(1)
    publish(frame, empty, "offers", key="id", application="job")
    found = loans_of(spark, empty, "offers")
    assert sorted((row.id, row.amount, row.note) for row in found) == [
        (number, number * 10, None if number % 2 else "even") for number in range(50)
    ]
    assert {bytes(row["_meta"].key) for row in found} == {str(number).encode() for number in range(50)}
    sent = {header.value.decode() for row in found for header in row["_meta"].headers}
    assert sent == {f"job/0/0/{number}" for number in range(50)}


def test_columns_that_do_not_fit_are_refused_before_anything_is_sent(spark: Any, empty: Place) -> None:
    frame = spark.createDataFrame([("x", 1)], "id string, amount long")
    with pytest.raises(PySparkException) as caught:
        publish(frame, empty, "offers")
    error = translated(str(caught.value))
    assert "do not fit the contract" in error.what
    assert loans_of(spark, empty, "offers") == []


def test_rows_that_do_not_fit_are_kept_with_the_reason(spark: Any, empty: Place) -> None:
    frame = spark.createDataFrame([(1, 10), (None, 20), (3, 30)], "id long, amount long").coalesce(1)
    folder = str(empty.folder / "refused")
    publish(frame, empty, "offers", onInvalid="quarantine", quarantine=folder)
    assert sorted(row.id for row in loans_of(spark, empty, "offers")) == [1, 3]
    (kept,) = open_table("delta", folder, "offers_refused").read().to_pylist()
    assert (kept["amount"], kept["_code"]) == (20, "message.encode.null")


def test_a_job_that_is_run_again_keeps_what_it_refuses_again(empty: Place) -> None:
    folder = str(empty.folder / "refused")
    refuse = {"onInvalid": "quarantine", "quarantine": folder, "application": "daily"}
    schema = StructType([StructField("id", LongType()), StructField("amount", LongType())])
    for day in (1, 2):
        source = DragomanSource(empty.options("offers", **refuse))
        writer = source.writer(schema, overwrite=False)
        batch = pa.record_batch({"id": pa.array([day, None]), "amount": pa.array([day, day])})
        writer.commit([writer.write(iter([batch]))])
    kept = open_table("delta", folder, "offers_refused").read()
    assert sorted(kept["amount"].to_pylist()) == [1, 2]


def test_a_contract_is_registered_from_the_columns_when_asked(spark: Any, place: Place) -> None:
    place.create("fresh")
    frame = spark.createDataFrame([(1, "a", [1, 2])], "id long, name string, scores array<long>")
    publish(frame, place, "fresh", autoRegister="true")
    (row,) = loans_of(spark, place, "fresh")
    assert (row.id, row.name, row.scores) == (1, "a", [1, 2])


def test_a_stream_is_published_and_goes_on_where_it_was(spark: Any, empty: Place) -> None:
    def once() -> None:
        source = spark.readStream.format("dragoman").options(**empty.options("loans")).load()
        good = source.where("_error IS NULL").select("id", "amount", "note")
        query = (
            good.writeStream.format("dragoman")
            .options(**empty.options("offers"))
            .option("checkpointLocation", str(empty.folder / "published"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    once()
    first = loans_of(spark, empty, "offers")
    assert len(first) == 30
    (query,) = {header.value.decode().split("/")[0] for row in first for header in row["_meta"].headers}
    assert query in (empty.folder / "published" / "metadata").read_text(), "it goes by the query's own id"
    once()
    assert len(loans_of(spark, empty, "offers")) == 30


def test_rows_are_refused_again_by_a_query_that_starts_anew(spark: Any, empty: Place) -> None:
    folder = str(empty.folder / "refused")
    checkpoint = empty.folder / "published"

    def once() -> int:
        source = spark.readStream.format("dragoman").options(**empty.options("loans")).load()
        rows = source.where("_error IS NULL").selectExpr("IF(id = 3, NULL, id) AS id", "amount", "note")
        query = (
            rows.writeStream.format("dragoman")
            .options(**empty.options("offers", onInvalid="quarantine", quarantine=folder))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return int(open_table("delta", folder, "offers_refused").count())

    assert once() == 1
    checkpoint.rename(empty.folder / "elsewhere")
    assert once() == 2


def test_rows_that_are_deleted_are_sent_without_payload_in_their_place(empty: Place) -> None:
    schema = StructType(
        [StructField("id", LongType()), StructField("amount", LongType()), StructField("gone", BooleanType())]
    )
    columns = {"id": [1, None, 3], "amount": [1, None, 3], "gone": [False, True, None]}
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    options = empty.options("offers", key="id", deleted="gone", application="job")
    writer = DragomanSource(options).writer(schema, overwrite=False)
    assert writer.write(iter([batch])).messages == 3
    source = DragomanSource(empty.options("offers"))
    reader = source.reader(source.schema())
    found = [row for part in reader.partitions() for each in reader.read(part) for row in each.to_pylist()]
    assert sorted((row["id"] or 0, row["_meta"]["schema_id"] is None) for row in found) == [
        (0, True),
        (1, False),
        (3, False),
    ]
    with pytest.raises(ConfigurationError, match="is not a boolean"):
        DragomanSource(empty.options("offers", deleted="id")).writer(schema, overwrite=False)
    with pytest.raises(ConfigurationError, match="no column 'nope', which is to be deleted"):
        DragomanSource(empty.options("offers", deleted="nope")).writer(schema, overwrite=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colour": "blue"}, "registryUsername, tableFormat"),
        ({"tableFormat": "orc"}, "tableFormat cannot be 'orc'. Allowed: delta, iceberg, parquet"),
        ({"onInvalid": "ignore"}, "onInvalid cannot be 'ignore'. Allowed: fail, quarantine"),
        ({"quarantine": "folder"}, "Set both"),
        ({"onInvalid": "quarantine"}, "Set both"),
        ({"version": "newest"}, "Allowed: latest, or a version's number"),
    ],
)
def test_impossible_options_are_refused_with_what_is_allowed(
    empty: Place, options: dict[str, str], told: str
) -> None:
    schema = StructType([StructField("id", LongType()), StructField("amount", LongType())])
    with pytest.raises(ConfigurationError) as caught:
        DragomanSource(empty.options("offers", **options)).writer(schema, overwrite=False)
    assert told in str(caught.value)


def test_an_unknown_option_is_refused_with_those_that_exist(spark: Any, empty: Place) -> None:
    frame = spark.createDataFrame([(1, 10)], "id long, amount long")
    with pytest.raises(PySparkException, match="autoRegister"):
        publish(frame, empty, "offers", colour="blue")
