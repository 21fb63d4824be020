"""Channels kept in tables: each message once, in the table or in its quarantine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.pipeline.running.conftest import BAD, GOOD
from tests.pipeline.source.channels import V2, V3, Place, loans

from dragoman.core.errors import ConfigurationError, Conflict
from dragoman.core.message import Message
from dragoman.pipeline.options import parse_options
from dragoman.pipeline.quarantined import Retry, Which, discard, entries
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.tables import TABLE_FORMATS
from dragoman.pipeline.vacuum import vacuum

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


def test_a_second_run_adds_only_what_is_new_and_the_table_follows_the_contract(
    spark: Any, place: Place
) -> None:
    run(spark, place)
    (third,) = place.register("loans-value", V3)
    place.publish(loans(third, V3, [100], note="new", term=24))
    made = run(spark, place)
    assert ids(made) == [*range(GOOD), 100]
    terms = {row["id"]: row["term"] for row in made.table(LOANS).read(["id", "term"]).to_pylist()}
    assert (terms[0], terms[100]) == (None, 24)
    progress = made.progress(LOANS, None)
    assert (progress.read, progress.valid, progress.quarantined) == (GOOD + BAD + 1, GOOD + 1, BAD)


def test_messages_in_quarantine_move_when_their_schema_is_known(spark: Any, place: Place) -> None:
    place.publish(loans(99, V2, [7_000, 7_001], note=None))
    made = run(spark, place)
    quarantine = made.quarantine(LOANS)
    unknown = Which(code="message.unknown-schema")
    assert entries(quarantine, unknown).num_rows == 2
    retry = Retry(LOANS, made.table(LOANS), quarantine, made.state(LOANS), parse_options(place.options()))
    assert retry.run(Which()).moved == 0
    fields = [{"name": f"unused{number}", "type": "int", "default": 0} for number in range(99)]
    others = [{**V2, "fields": [*V2["fields"], field]} for field in fields]
    assert 99 in place.register("other-value", *others)
    outcome = retry.run(Which())
    assert outcome.moved + outcome.left == BAD + 2
    assert entries(quarantine, Which()).num_rows == outcome.left


def test_a_message_in_quarantine_can_be_discarded(spark: Any, place: Place) -> None:
    made = run(spark, place)
    assert discard(made.quarantine(LOANS), Which(partition=0)) == 1
    assert entries(made.quarantine(LOANS), Which())["partition"].to_pylist() == [1]


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


def test_a_lost_checkpoint_is_refused_before_anything_is_skipped(spark: Any, place: Place) -> None:
    made = run(spark, place)
    made.state(LOANS).checkpoint.rename(place.folder / "elsewhere")
    with pytest.raises(Conflict, match="checkpoint does not know"):
        run(spark, place)


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


def test_files_of_batches_that_were_tried_twice_are_vacuumed(spark: Any, place: Place) -> None:
    made = run(spark, place)
    table, state = made.table(LOANS), made.state(LOANS)
    orphan = place.folder / "tables" / "loans" / "data" / "orphan.parquet"
    orphan.write_bytes(b"left behind")
    assert vacuum(table, [state], 3600) == []
    assert vacuum(table, [state], -1, dry_run=True) == [orphan]
    assert vacuum(table, [state], -1) == [orphan]
    assert not orphan.exists()
    assert ids(made) == list(range(GOOD))


def test_a_column_that_the_contract_lacks_is_refused_with_those_it_has(spark: Any, place: Place) -> None:
    with pytest.raises(ConfigurationError, match="country") as caught:
        run(spark, place, Flow("loans", partition_by=("country",)))
    assert "amount" in caught.value.next


def test_two_flows_to_one_table_are_refused(spark: Any, place: Place) -> None:
    with pytest.raises(ConfigurationError, match="Two flows"):
        Pipeline(spark, [Flow("a", table="t"), Flow("b", table="t")], "x")


def test_the_event_log_tells_each_batch(spark: Any, place: Place) -> None:
    made = run(spark, place)
    (line,) = made.state(LOANS).events.read_text().splitlines()
    event = json.loads(line)
    assert (event["read"], event["valid"], event["quarantined"]) == (GOOD + BAD, GOOD, BAD)
