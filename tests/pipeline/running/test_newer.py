"""A contract gets a version while a pipeline runs: it stops before it drops fields, and goes on whole."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.running.sinks import Sink
from tests.pipeline.source.channels import NOTE, V1, Place, loan, loans

from dragoman.core.contract import Compatibility
from dragoman.core.errors import Conflict
from dragoman.core.loading import FORMATS, load, redacted
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from dragoman.core.schema import Schema
from dragoman.pipeline import decode, schemas
from dragoman.pipeline.again import how_to_start
from dragoman.pipeline.events import Progress
from dragoman.pipeline.faults import spark_faults
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.registry import connect
from dragoman.schema.framing import frame

WITH_NOTE = loan(NOTE)
WIDER = loan(NOTE, amount="long")
CITY = {"name": "city", "type": ["null", "string"], "default": None}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (first,) = made.register("loans-value", V1)
    made.create("loans", 1)
    made.publish(loans(first, V1, range(5)))
    return made


def stopped(sink: Sink, since: int, code: str = "pipeline.newer-version") -> Conflict:
    with pytest.raises(Conflict) as caught:
        sink.write(since)
    assert caught.value.code == code
    return caught.value


def in_registry(place: Place, work: Callable[[Registry], Awaitable[Any]]) -> None:
    async def run() -> None:
        registry = connect(place.registry)
        await work(registry)
        await registry.close()

    asyncio.run(run())


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_fields_of_a_new_version_are_stored_after_a_restart(place: Place, table_format: str) -> None:
    sink = Sink(place, Flow("loans"), table_format)
    sink.run(0)
    (second,) = place.register("loans-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, range(5, 8), note="kept"))
    error = stopped(sink, since=5)
    assert "version 2 of its contract, and is read as version 1" in error.what
    assert error.where == {"channel": "loans", "contract": "loans-value"}
    sink = Sink(place, Flow("loans"), table_format)
    sink.run(1, since=5)
    (third,) = place.register("loans-value", WIDER)
    place.publish(loans(third, WIDER, [2**40], note="wide"))
    stopped(sink, since=8)
    sink = Sink(place, Flow("loans"), table_format)
    sink.run(2, since=8)
    rows = sink.table.read(["id", "note", "amount"]).to_pylist()
    assert {row["id"]: row["note"] for row in rows} == {
        **dict.fromkeys(range(5)),
        **dict.fromkeys(range(5, 8), "kept"),
        2**40: "wide",
    }
    assert len(rows) == 9 and max(row["amount"] for row in rows) == 2**40 * 10
    assert sink.quarantine.count() == 0


def test_a_removed_field_stops_nothing(place: Place) -> None:
    second, _ = place.register("loans-value", WITH_NOTE, loan(CITY))
    sink = Sink(place, Flow("loans"))
    place.publish(loans(second, WITH_NOTE, [5], note="dropped by intent"))
    sink.run()
    assert sink.ids() == [*range(6)]


def test_a_version_that_means_the_same_stops_nothing(place: Place) -> None:
    sink = Sink(place, Flow("loans"))
    told = V1 | {"doc": "What is lent."}
    (second,) = place.register("loans-value", told)
    place.publish(loans(second, told, [5]))
    sink.run()
    assert sink.ids() == [*range(6)]


def test_a_field_that_came_and_went_stops_nothing(place: Place) -> None:
    sink = Sink(place, Flow("loans"))
    second, _ = place.register("loans-value", WITH_NOTE, V1 | {"doc": "Without the note again."})
    place.publish(loans(second, WITH_NOTE, [5], note="dropped by intent"))
    sink.run()
    assert sink.ids() == [*range(6)]


def test_a_version_chosen_by_number_is_kept_to(place: Place) -> None:
    sink = Sink(place, Flow("loans", options=(("version", "1"),)))
    (second,) = place.register("loans-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, [5], note="not asked for"))
    sink.run()
    assert sink.ids() == [*range(6)]


def test_another_kind_of_time_is_another_meaning(place: Place) -> None:
    """Both are a long in the bytes."""
    plain = {"name": "at", "type": "long"}
    moment = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    place.register("loans-value", loan(plain))
    sink = Sink(place, Flow("loans"))
    (third,) = place.register("loans-value", loan(moment))
    sent = [Message("loans", frame(third, avro(loan(moment), {"id": 1, "amount": 1, "at": 2})))]
    place.publish(sent)
    stopped(sink, since=5)


def avro(schema: Any, value: Any) -> bytes:
    format = load(FORMATS, "AVRO")()
    found: bytes = format.codec(format.parse(json.dumps(schema))).encode(value)
    return found


def test_a_schema_that_its_contract_gets_late_is_noticed(place: Place) -> None:
    """The message came first, under a schema of another contract."""
    (foreign,) = place.register("other-value", WITH_NOTE)
    sink = Sink(place, Flow("loans"))
    place.publish(loans(foreign, WITH_NOTE, [5], note="of no version yet"))
    sink.run()
    assert place.register("loans-value", WITH_NOTE) == [foreign]
    place.publish(loans(foreign, WITH_NOTE, [6], note="of version 2"))
    stopped(sink, since=6)
    sink = Sink(place, Flow("loans"))
    sink.run(1, since=6)
    rows = sink.table.read(["id", "note"]).to_pylist()
    assert {row["id"]: row["note"] for row in rows}[6] == "of version 2"


def test_a_schema_of_another_contract_stops_nothing(place: Place) -> None:
    sink = Sink(place, Flow("loans"))
    (foreign,) = place.register("other-value", WITH_NOTE)
    place.publish(loans(foreign, WITH_NOTE, [5], note="of no version"))
    sink.run()
    assert sink.ids() == [*range(6)]


@pytest.mark.parametrize("permanent", [False, True])
def test_messages_of_a_deleted_version_are_read_as_the_latest(place: Place, permanent: bool) -> None:
    sink = Sink(place, Flow("loans"))
    sink.run()
    second, _ = place.register("loans-value", WITH_NOTE, loan(NOTE, CITY))
    place.register("other-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, [5], note="kept"))
    in_registry(place, lambda registry: registry.delete("loans-value", 2))
    if permanent:
        in_registry(place, lambda registry: registry.delete("loans-value", 2, permanent=True))
    assert "a schema that is no version of its contract" in stopped(sink, since=5).what
    sink = Sink(place, Flow("loans"))
    sink.run(1, since=5)
    rows = sink.table.read(["id", "note"]).to_pylist()
    assert {row["id"]: row["note"] for row in rows}[5] == "kept"


def test_a_deleted_version_without_a_successor_stops_nothing(place: Place) -> None:
    sink = Sink(place, Flow("loans"))
    (second,) = place.register("loans-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, [5], note="dropped by intent"))
    in_registry(place, lambda registry: registry.delete("loans-value", 2))
    sink.run()
    assert sink.ids() == [*range(6)]


def test_a_field_that_is_renamed_and_renamed_back_is_stored(place: Place) -> None:
    """Versions 1 and 3 have the same bytes and columns; only the alias tells that they differ."""
    first, second, third = (
        loan({"name": name, "type": "int", "default": 0} | more)
        for name, more in (("a", {}), ("b", {"aliases": ["a"]}), ("a", {"aliases": ["b"]}))
    )
    (one,) = place.register("loans-value", first)
    sink = Sink(place, Flow("loans"))
    place.publish(loans(one, first, [5], a=1))
    sink.run()
    two, _ = place.register("loans-value", second, third)
    place.publish(loans(two, second, [6], b=555))
    stopped(sink, since=6)
    sink = Sink(place, Flow("loans"))
    sink.run(1, since=6)
    rows = sink.table.read(["id", "a"]).to_pylist()
    assert {row["id"]: row["a"] for row in rows}[6] == 555


def test_a_wider_constraint_stops_before_the_quarantine(place: Place) -> None:
    narrow, wide = (
        loan({"name": "a", "type": {"type": "int", "maximum": most}, "default": 0}) for most in (5, 50)
    )
    place.register("loans-value", narrow)
    sink = Sink(place, Flow("loans"))
    (third,) = place.register("loans-value", wide)
    place.publish(loans(third, wide, [5], a=40))
    stopped(sink, since=5)
    sink = Sink(place, Flow("loans"))
    sink.run()
    assert sink.ids() == [*range(6)] and sink.quarantine.count() == 0


def test_a_message_that_came_before_its_schema_is_noticed_by_the_next(place: Place, monkeypatch: Any) -> None:
    monkeypatch.setattr(schemas, "FORGET_AFTER", 0.0)
    sink = Sink(place, Flow("loans"))
    place.publish(loans(2, WITH_NOTE, [5], note="unknown"))
    sink.run()
    assert sink.quarantine.count() == 1
    assert place.register("loans-value", WITH_NOTE) == [2]
    place.publish(loans(2, WITH_NOTE, [6], note="known"))
    stopped(sink, since=6)


def in_channel(channel: str, messages: Sequence[Message]) -> list[Message]:
    return [each._replace(channel=channel) for each in messages]


def test_each_of_several_channels_counts_its_own_versions(place: Place) -> None:
    """Both are read as one schema, which is version 1 of the first contract and version 2 of the second."""
    place.create("more", 1)
    earlier = loan(CITY)
    old, first = place.register("more-value", earlier, V1)
    place.publish(in_channel("more", [*loans(old, earlier, [10], city="x"), *loans(first, V1, [11])]))
    flow = Flow("loans, more", table="both")
    sink = Sink(place, flow)
    sink.run()
    assert sink.ids() == [*range(5), 10, 11]
    (second,) = place.register("loans-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, [5], note="new"))
    assert stopped(sink, since=0).where["channel"] == "loans"
    assert place.register("more-value", WITH_NOTE) == [second]
    place.publish(in_channel("more", loans(second, WITH_NOTE, [12], note="new")))
    Sink(place, flow).run(1)


def test_a_channel_made_meanwhile_is_not_read_as_less_than_it_has(place: Place) -> None:
    sink = Sink(place, Flow("loans*", table="all"))
    place.create("loans-eu", 1)
    place.register("loans-eu-value", V1)
    (second,) = place.register("loans-eu-value", WITH_NOTE)
    place.publish(in_channel("loans-eu", loans(1, V1, [7])))
    place.publish(in_channel("loans-eu", loans(second, WITH_NOTE, [8], note="eu")))
    error = stopped(sink, since=0, code="pipeline.other-contract")
    assert error.where == {"channel": "loans-eu", "contract": "loans-eu-value"}
    assert "a stream of its own" in error.next


def test_a_channel_made_meanwhile_is_read_after_a_restart_if_all_have_one_contract(place: Place) -> None:
    flow = Flow("loans*", table="all")
    sink = Sink(place, flow)
    place.create("loans-eu", 1)
    place.register("loans-eu-value", V1)
    (second,) = place.register("loans-eu-value", WITH_NOTE)
    place.publish(in_channel("loans-eu", loans(second, WITH_NOTE, [8], note="eu")))
    assert place.register("loans-value", WITH_NOTE) == [second]
    assert "loans-value, version 1" in stopped(sink, since=0).what
    sink = Sink(place, flow)
    sink.run()
    assert sink.ids() == [*range(5), 8]


FORMATTED = {
    "JSON": [
        json.dumps({"type": "object", "properties": each})
        for each in (
            {"id": {"type": "integer"}},
            {"id": {"type": "integer"}, "note": {"type": "string"}},
        )
    ],
    "PROTOBUF": [
        f'syntax = "proto3"; message Loan {{ {fields} }}'
        for fields in ("int64 id = 1;", "int64 id = 1; string note = 2;")
    ],
    "THRIFT": [
        f"struct Loan {{ {fields} }}"
        for fields in ("1: required i64 id", "1: required i64 id, 2: optional string note")
    ],
}


def register(place: Place, schema_type: str, text: str) -> int:
    async def run() -> int:
        registry = connect(place.registry)
        await registry.set_compatibility("typed-value", Compatibility.NONE)
        found = await registry.register("typed-value", Schema(schema_type, text))
        await registry.close()
        return found.schema.id or 0

    return asyncio.run(run())


@pytest.mark.parametrize("schema_type", FORMATTED)
def test_all_formats_stop_for_a_new_field(place: Place, schema_type: str) -> None:
    format = load(FORMATS, schema_type)()
    place.create("typed", 1)
    for number, text in enumerate(FORMATTED[schema_type]):
        schema_id = register(place, schema_type, text)
        value = {"id": number} | ({"note": "kept"} if number else {})
        encoded = format.codec(format.parse(text)).encode(value)
        place.publish([Message("typed", frame(schema_id, encoded))])
        if number == 0:
            sink = Sink(place, Flow("typed"))
            sink.run()
    stopped(sink, since=1)
    sink = Sink(place, Flow("typed"))
    sink.run(1, since=1)
    rows = sorted(sink.table.read(["id", "note"]).to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["note"]) for row in rows] == [(0, None), (1, "kept")]


def test_a_running_pipeline_stops_and_says_how_to_go_on(spark: Any, place: Place) -> None:
    flow = Flow("loans")
    to = str(place.folder / "tables")
    made = Pipeline(spark, [flow], to, broker=place.broker, registry=place.registry)
    published: list[int] = []

    def evolve(progress: Progress) -> None:
        if progress.read == 5 and not published:
            published.extend(place.register("loans-value", WITH_NOTE))
            place.publish(loans(published[0], WITH_NOTE, range(5, 8), note="kept"))

    with made, pytest.raises(Conflict, match="version 2") as caught:
        made.run(watch=evolve)
    assert caught.value.code == "pipeline.newer-version"
    assert f"dragoman pipeline run --channel loans --to {to}" in caught.value.next
    seen: list[Progress] = []
    with made:
        made.run(once=True, watch=seen.append)
    assert seen[-1].read == 8
    rows = sorted(made.table(flow).read(["id", "note"]).to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == [*range(8)]
    assert [row["note"] for row in rows] == [None] * 5 + ["kept"] * 3
    assert made.quarantine(flow).count() == 0


def test_a_decoded_stream_stops_for_a_version_that_came_after_the_call(
    spark: Any, place: Place, tmp_path: Path
) -> None:
    def started(name: str) -> Any:
        frames = spark.readStream.format("dragoman").options(**place.options(mode="raw")).load()
        rows = decode(frames.select("frame"), "frame", "loans-value", registry=place.registry)
        if not new:
            new.extend(place.register("loans-value", WITH_NOTE))
            place.publish(loans(new[0], WITH_NOTE, [5], note="kept"))
        writer = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint" / name)).start()

    new: list[int] = []
    with pytest.raises(Conflict, match="version 2 of its contract") as caught, spark_faults():
        started("stopped").awaitTermination()
    assert caught.value.code == "pipeline.newer-version"
    started("whole").awaitTermination()
    found = spark.table("whole").select("id", "note").collect()
    assert sorted((row.id, row.note) for row in found) == [*((i, None) for i in range(5)), (5, "kept")]


def test_a_decoded_batch_stops_for_a_version_that_came_after_the_call(spark: Any, place: Place) -> None:
    def decoded() -> Any:
        frames = spark.read.format("dragoman").options(**place.options(mode="raw")).load()
        return decode(frames.select("frame"), "frame", "loans-value", registry=place.registry)

    early = decoded()
    (second,) = place.register("loans-value", WITH_NOTE)
    place.publish(loans(second, WITH_NOTE, [5], note="kept"))
    with pytest.raises(Conflict, match="version 2 of its contract") as caught, spark_faults():
        early.collect()
    assert caught.value.code == "pipeline.newer-version"
    found = decoded().select("id", "note").collect()
    assert sorted((row.id, row.note) for row in found) == [*((i, None) for i in range(5)), (5, "kept")]


def test_the_command_says_all_that_options_can_say() -> None:
    flows = [Flow(channel, merge_by=("id", "key"), max_rows_per_trigger=9) for channel in ("a", "b c")]
    made = Pipeline(None, flows, "lake", "nats://host", "sqlite://r.db", table_format="iceberg", name="mine")
    told = how_to_start(made, once=True)
    assert told == (
        "run: dragoman pipeline run --channel a --channel 'b c' --to lake --table-format iceberg --name mine "
        "--broker nats://host --registry sqlite://r.db --merge-by id --merge-by key "
        "--max-rows-per-trigger 9 --once"
    )
    other = Pipeline(None, [Flow("a", table="t")], "lake")
    assert how_to_start(other, once=False) == "start the pipeline again as before."


@pytest.mark.parametrize(
    "broker", ["embedded://b", "kafka://u:pa'ss@h:9092", "kafka://h?sasl_password=pa'ss"]
)
@pytest.mark.parametrize("registry", ["sqlite://r.db", "http://u:pa'ss@h:8081"])
def test_the_command_can_be_run_although_secrets_are_not_shown(
    monkeypatch: pytest.MonkeyPatch, broker: str, registry: str
) -> None:
    made = Pipeline(None, [Flow("a")], "lake", broker, registry)
    told = how_to_start(made, once=False)
    assert "pa'ss" not in told
    first, separator, command = told.rpartition("run: ")
    assert separator and "***" not in command
    for url, option, variable in (
        (broker, "--broker", "DRAGOMAN_BROKER"),
        (registry, "--registry", "DRAGOMAN_REGISTRY"),
    ):
        if "pa'ss" in url:
            assert f"{variable} to {shlex.quote(redacted(url))}" in first and option not in command
            assert "***" in first
            monkeypatch.setenv(variable, url)
        else:
            assert f"{option} {url}" in command and variable not in first
    # The secrets may be given already: then the command alone is enough.
    assert how_to_start(made, once=False) == f"run: {command}"
