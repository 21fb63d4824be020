"""Auditing, replaying and asking a channel's history."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.pipeline.running.conftest import BAD, GOOD
from tests.pipeline.source.channels import NOTE, V2, V3, Place, loan, payload

from dragoman.core.loading import BROKERS, load
from dragoman.core.message import Message
from dragoman.pipeline.arrow import SchemaText
from dragoman.pipeline.auditing import audit_channel
from dragoman.pipeline.backfill import Backfill
from dragoman.pipeline.options import parse_options
from dragoman.pipeline.report import html_report
from dragoman.pipeline.views import catalog
from dragoman.schema.framing import frame


def ends(place: Place, channel: str) -> int:
    log = load(BROKERS, "embedded")(place.broker).log()
    return sum(end for _, end in log.partitions(channel).values())


def audited(spark: Any, place: Place, candidate: Any) -> Any:
    options = parse_options(place.options())
    return audit_channel(spark, options, "loans-value", SchemaText("AVRO", json.dumps(candidate)))


def test_an_audit_counts_by_version_and_partition(spark: Any, place: Place) -> None:
    report = audited(spark, place, V3)
    assert (report.audit.read, report.audit.failed) == (GOOD + BAD, BAD)
    good = {
        (report.versions[finding.schema_id], finding.partition): number
        for finding, number in report.audit.counts.items()
        if not finding.code and number
    }
    assert good == {(1, 0): 20, (2, 1): 10}
    assert report.defaults[1] == ("note", "term")
    amounts = report.profile.columns["amount"]
    assert (amounts.least, amounts.most, amounts.nulls) == (0.0, 290.0, 0)


def test_an_audit_is_one_job_however_many_partitions_there_are(spark: Any, place: Place) -> None:
    spark.sparkContext.setJobGroup(str(place.folder), "audit")
    try:
        audited(spark, place, V3)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    # The tracker hears of jobs from a thread of its own.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(place.folder))) == 1


def test_an_audit_tells_what_would_break_and_where(spark: Any, place: Place) -> None:
    report = audited(spark, place, loan(NOTE, {"name": "country", "type": "string"}))
    assert not report.readable
    broken = {finding.code for finding in report.audit.samples if finding.schema_id in (1, 2)}
    assert broken == {"message.decode.incompatible"}
    page = html_report(report)
    assert "not readable" in page and "country" in page and "<script" not in page


def test_history_is_replayed_into_another_channel_in_the_version_asked_for(
    spark: Any, place: Place, tmp_path: Path
) -> None:
    work = Backfill(spark, "loans", version="2", broker=place.broker, registry=place.registry)
    done = work.to_channel("loans.v2", tmp_path / "state")
    assert (done.valid, done.quarantined) == (GOOD, BAD)
    assert ends(place, "loans.v2") == GOOD
    rows = spark.read.format("dragoman").options(**place.options("loans.v2")).load().collect()
    assert sorted(row.id for row in rows) == list(range(GOOD))
    assert {row["_meta"].writer_version for row in rows} == {1}
    assert work.to_channel("loans.v2", tmp_path / "state").valid == 0


def test_a_field_called_key_and_a_message_without_payload_are_replayed(
    spark: Any, place: Place, tmp_path: Path
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "key", "type": "string"}]}
    (number,) = place.register("keys-value", schema)
    place.create("keys")
    inner = frame(number, payload(schema, {"key": "inner"}))
    place.publish([Message("keys", each, key=b"outer") for each in (inner, None)])
    work = Backfill(spark, "keys", broker=place.broker, registry=place.registry)
    assert work.to_channel("keys.copy", tmp_path / "state").valid == 2
    rows = spark.read.format("dragoman").options(**place.options("keys.copy")).load().orderBy("_meta.offset")
    first, tombstone = rows.collect()
    assert (first.key, bytes(first["_meta"].key)) == ("inner", b"outer")
    assert (tombstone["_meta"].schema_id, bytes(tombstone["_meta"].key)) == (None, b"outer")


def test_history_is_replayed_into_a_table_up_to_an_offset(spark: Any, place: Place, tmp_path: Path) -> None:
    end = json.dumps({"loans": {"0": 5, "1": 3}})
    work = Backfill(spark, "loans", end=end, broker=place.broker, registry=place.registry)
    done = work.to_table(str(tmp_path / "tables"))
    assert (done.valid, done.quarantined) == (8, 0)


def test_contracts_are_tables_in_sql(spark: Any, place: Place) -> None:
    assert catalog(spark, place.broker, place.registry) == ["dragoman.`loans`"]
    query = "SELECT count(*) AS n, max(amount) AS most FROM dragoman.`loans` WHERE _error IS NULL"
    (row,) = spark.sql(query).collect()
    assert (row.n, row.most) == (GOOD, (GOOD - 1) * 10)


async def test_a_contract_without_columns_is_left_out_also_in_a_notebook(spark: Any, place: Place) -> None:
    """A notebook's event loop is running, as this test's is."""
    inner = {"name": "next", "type": ["null", "Chain"], "default": None}
    schema = {"type": "record", "name": "Chain", "fields": [inner]}
    await asyncio.to_thread(place.register, "chains-value", schema)
    await asyncio.to_thread(place.create, "chains")
    assert catalog(spark, place.broker, place.registry) == ["dragoman.`loans`"]


def test_channels_with_dots_and_dashes_are_tables_too(spark: Any, place: Place) -> None:
    place.register("loan-broker.request-value", V2)
    place.create("loan-broker.request")
    assert "dragoman.`loan-broker.request`" in catalog(spark, place.broker, place.registry)
    assert spark.sql("SELECT * FROM dragoman.`loan-broker.request`").count() == 0
