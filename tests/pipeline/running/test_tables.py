"""Channels kept in tables: each message once, in the table or in its quarantine."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.running.conftest import BAD, GOOD
from tests.pipeline.source.channels import V2, V3, Place, loans, payload

from dragoman.cli import main
from dragoman.core.errors import ConfigurationError, Conflict, DragomanError
from dragoman.core.message import Message
from dragoman.pipeline.backfill import Backfill
from dragoman.pipeline.quarantined import Which, entries
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.state import Decision
from dragoman.pipeline.tables import TABLE_FORMATS
from dragoman.schema.framing import frame

LOANS = Flow("loans")


def pipeline(spark: Any, place: Place, flow: Flow = LOANS, **more: Any) -> Pipeline:
    target = str(place.folder / "tables")
    return Pipeline(spark, [flow], target, broker=place.broker, registry=place.registry, **more)


def run(spark: Any, place: Place, flow: Flow = LOANS, **more: Any) -> Pipeline:
    made = pipeline(spark, place, flow, **more)
    with made:
        made.run(once=True)
    return made


def ids(made: Pipeline, flow: Flow = LOANS) -> list[int]:
    return sorted(made.table(flow).read(["id"])["id"].to_pylist())


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_every_message_is_in_the_table_or_in_quarantine(spark: Any, place: Place, table_format: str) -> None:
    made = run(spark, place, table_format=table_format)
    assert ids(made) == list(range(GOOD))
    found = entries(made.quarantine(LOANS), Which()).to_pylist()
    assert [(row["partition"], row["code"]) for row in found] == [
        (0, "message.frame.foreign"),
        (1, "message.decode.truncated"),
    ]
    assert found[0]["frame"] == b"nonsense"
    assert found[0]["key"] == b"k"


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_every_logical_type_has_its_place_in_a_table(spark: Any, place: Place, table_format: str) -> None:
    types = {
        "day": {"type": "int", "logicalType": "date"},
        "early": {"type": "int", "logicalType": "time-millis"},
        "exact": {"type": "long", "logicalType": "time-micros"},
        "moment": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "nanos": {"type": "long", "logicalType": "timestamp-nanos"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "span": {"type": {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"}},
        "number": {"type": "string", "logicalType": "uuid"},
        "nothing": {"type": "null"},
        "choice": {"type": ["long", "string"]},
        "digest": {"type": {"type": "fixed", "name": "Digest", "size": 4}},
    }
    fields = [{"name": n, "type": t if "logicalType" in t else t["type"]} for n, t in types.items()]
    schema = {"type": "record", "name": "Every", "fields": fields}
    (number,) = place.register("every-value", schema)
    place.create("every", 1)
    day = 86_400
    value = {
        "day": 1,
        "early": 1_000,
        "exact": 1_000_000,
        "moment": day * 1_000_000,
        "local": day * 1_000,
        "nanos": 7,
        "price": Decimal("1.50"),
        "span": bytes(12),
        "number": "12345678-1234-1234-1234-123456789abc",
        "nothing": None,
        "choice": "text",
        "digest": b"abcd",
    }
    place.publish([Message("every", frame(number, payload(schema, value)))])
    flow = Flow("every")
    made = run(spark, place, flow, table_format=table_format)
    (row,) = made.table(flow).read().to_pylist()
    assert entries(made.quarantine(flow), Which()).num_rows == 0
    assert str(row["early"]).startswith("00:00:01") and str(row["exact"]).startswith("00:00:01")
    assert (row["day"], row["price"], row["nanos"]) == (date(1970, 1, 2), value["price"], 7)
    assert row["moment"].timestamp() == day and row["local"] == datetime(1970, 1, 2)
    assert row["choice"] == {"long": None, "string": "text"}
    assert (row["digest"], row["nothing"], row["number"]) == (b"abcd", None, value["number"])


def test_a_second_run_adds_only_what_is_new_and_the_table_follows_the_contract(
    spark: Any, place: Place
) -> None:
    run(spark, place)
    (third,) = place.register("loans-value", V3)
    place.publish(loans(third, V3, [100], note="new", term=24))
    made = run(spark, place, Flow("loans", compact_every=1))
    assert made.table(LOANS).compact() == 0, "the stream has joined the small files"
    assert ids(made) == [*range(GOOD), 100]
    terms = {row["id"]: row["term"] for row in made.table(LOANS).read(["id", "term"]).to_pylist()}
    assert (terms[0], terms[100]) == (None, 24)
    progress = made.progress(LOANS, None)
    assert (progress.read, progress.valid, progress.quarantined) == (GOOD + BAD + 1, GOOD + 1, BAD)


def test_the_latest_message_of_each_key_is_kept_and_a_tombstone_removes_it(spark: Any, place: Place) -> None:
    (second,) = place.register("keyed-value", V2)

    def keyed(key: bytes, number: int) -> Message:
        (made,) = loans(second, V2, [number], note=None)
        return made._replace(channel="keyed", key=key, partition=0)

    place.create("keyed")
    place.publish([keyed(b"a", 1), keyed(b"b", 2), keyed(b"a", 3)])
    flow = Flow("keyed", merge_by=("key",))
    assert ids(run(spark, place, flow), flow) == [2, 3]
    place.publish([Message("keyed", None, key=b"b", partition=0), keyed(b"a", 4), keyed(b"c", 5)])
    assert ids(run(spark, place, flow), flow) == [4, 5]


def test_a_second_driver_is_refused(spark: Any, place: Place) -> None:
    with pipeline(spark, place), pytest.raises(Conflict, match="Another driver"), pipeline(spark, place):
        pass
    with pytest.raises(ConfigurationError, match=r"with Pipeline"):
        pipeline(spark, place).run(once=True)


def test_a_lost_checkpoint_is_refused_before_anything_is_skipped(spark: Any, place: Place) -> None:
    made = run(spark, place)
    made.state(LOANS).checkpoint.rename(place.folder / "elsewhere")
    with pytest.raises(Conflict, match="checkpoint does not know"):
        run(spark, place)


def test_a_decision_without_its_checkpoint_is_refused_too(spark: Any, place: Place) -> None:
    """A driver died before the first commit, and then its checkpoint was removed."""
    pipeline(spark, place).state(LOANS).decide(Decision(0, 0, (), ()))
    with pytest.raises(Conflict, match="checkpoint does not know"):
        run(spark, place)


def test_a_table_is_not_kept_in_another_way_than_before(spark: Any, place: Place) -> None:
    made = pipeline(spark, place)
    made.state(LOANS).remember({**asdict(LOANS), "table": "loans", "format": "delta"})
    with pytest.raises(Conflict, match="table_format delta, not iceberg"):
        run(spark, place, table_format="iceberg", name="other")
    with pytest.raises(Conflict, match="merge_by nothing, not id"):
        run(spark, place, Flow("loans", merge_by=("id",)))
    with pytest.raises(Conflict, match="partition_by nothing, not note"):
        run(spark, place, Flow("loans", partition_by=("note",)))
    with pytest.raises(Conflict, match="twice"):
        Backfill(spark, "loans", broker=place.broker, registry=place.registry).to_table(made.to)


def test_a_flow_that_fails_ends_the_others(spark: Any, place: Place) -> None:
    broken = Flow("loans", table="broken")
    blocked = place.folder / "tables" / "broken" / "data"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where workers want a folder")
    target = str(place.folder / "tables")
    made = Pipeline(spark, [LOANS, broken], target, broker=place.broker, registry=place.registry)
    with made, pytest.raises(DragomanError, match="Spark failed") as caught:
        made.run()
    assert caught.value.code == "pipeline.query"
    assert not [query for query in spark.streams.active if query.name.startswith("pipeline-")]


def test_mistakes_on_the_command_line_are_told_without_a_stack(
    spark: Any, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.create("bare")
    common = [
        "--to",
        str(place.folder / "t"),
        "--broker",
        place.broker,
        "--registry",
        place.registry,
        "--once",
    ]
    mistakes = {
        "There is no channel": ["--channel", "nobody"],
        "'bare-value' not found": ["--channel", "bare"],
        "no column country": ["--channel", "loans", "--merge-by", "country"],
        "cannot replace rows": ["--channel", "loans", "--merge-by", "id", "--table-format", "parquet"],
        "not a table format": ["--channel", "loans", "--table-format", "orc"],
        "version cannot be": ["--channel", "loans", "--version", "new"],
    }
    for told, given in mistakes.items():
        with pytest.raises(SystemExit) as ended:
            main(["pipeline", "run", *common, *given])
        shown = capfd.readouterr().err
        assert ended.value.code == 2
        assert told in shown and "Traceback" not in shown and "\tat " not in shown


def test_what_a_batch_decided_stands_when_it_is_tried_again(spark: Any, place: Place) -> None:
    """The driver dies after the quarantine's commit; then the missing schema is registered."""
    place.publish(loans(3, V3, [500], note=None, term=1))
    made = run(spark, place)
    state = made.state(LOANS)
    (decision,) = state.decisions()
    assert decision.rejected == BAD + 1
    place.register("loans-value", V3)
    (state.checkpoint / "commits" / "0").unlink()
    (state.checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    again = run(spark, place)
    assert ids(again) == list(range(GOOD))
    assert entries(again.quarantine(LOANS), Which()).num_rows == BAD + 1


def test_a_column_that_the_contract_lacks_is_refused_with_those_it_has(spark: Any, place: Place) -> None:
    with pytest.raises(ConfigurationError, match="country") as caught:
        run(spark, place, Flow("loans", partition_by=("country",)))
    assert "amount" in caught.value.next


def test_two_flows_to_one_table_are_refused(spark: Any, place: Place) -> None:
    with pytest.raises(ConfigurationError, match="Two flows"):
        Pipeline(spark, [Flow("a", table="t"), Flow("b", table="t")], "x")
    with pytest.raises(ConfigurationError, match="Two flows write to t_quarantine"):
        Pipeline(spark, [Flow("a", table="t"), Flow("t.quarantine")], "x")


def test_a_table_is_not_merged_by_a_column_of_another_type(spark: Any, place: Place) -> None:
    flow = Flow("loans", merge_by=("amount",))
    assert len(ids(run(spark, place, flow), flow)) == GOOD
    place.register("loans-value", V3)
    with pytest.raises(Conflict, match="gave amount another type"):
        run(spark, place, flow)


def test_options_that_a_flow_has_of_its_own_are_refused(spark: Any, place: Place) -> None:
    with pytest.raises(ConfigurationError, match="sets Channel, mode by itself"):
        run(spark, place, Flow("loans", options=(("mode", "fail"), ("Channel", "other"))))


def test_credentials_are_kept_nowhere_on_disk(spark: Any, place: Place) -> None:
    given = {"registryUsername": "ada", "registrypassword": "hunter2", "registryToken": "hunter3"}
    flow = Flow("loans", options=(*given.items(), ("unions", "json")))
    made = run(spark, place, flow)
    assert ids(made, flow) == list(range(GOOD))
    (found,) = Pipeline.flows_below(made.to)
    assert found[1].options == (("unions", "json"),)
    told = [file for file in place.folder.rglob("*") if file.is_file() and b"hunter" in file.read_bytes()]
    assert told == []


def test_a_file_that_still_has_credentials_is_read_without_them_and_cleaned_by_the_next_run(
    spark: Any, place: Place
) -> None:
    made = pipeline(spark, place)
    old = {**asdict(LOANS), "table": "loans", "options": [["registryToken", "hunter3"]], "format": "delta"}
    made.state(LOANS).remember(old)
    (found,) = Pipeline.flows_below(made.to)
    assert found[1].options == ()
    run(spark, place)
    assert "hunter3" not in (made.state(LOANS).home / "flow.json").read_text()


def test_what_the_file_says_cannot_be_said_beside_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lake.toml"
    file.write_text('to = "lake"\n[[flow]]\nchannel = "loans"\n')
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", "--config", str(file), "--once", "--table-format", "iceberg"])
    assert ended.value.code == 2
    assert "--config stands for --table-format." in capfd.readouterr().err
