from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.source.channels import NOTE, V1, V2, V3, Place, loan, loans, payload

from dragoman.core.errors import BrokerError, ChannelNotFound, ConfigurationError, Conflict, DecodeError
from dragoman.core.message import Message
from dragoman.pipeline import batch, plan, reading, stream
from dragoman.pipeline.batch import RangePartition
from dragoman.pipeline.options import RegistryAccess, parse_options
from dragoman.pipeline.ranges import grouped, refuse_lost
from dragoman.pipeline.reading import Range, RangeReader
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.source import DragomanSource
from dragoman.schema.framing import frame


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def mixed(place: Place) -> Place:
    """Three versions of a contract, mixed in each of two partitions."""
    first, second, third = place.register("loans-value", V1, V2, V3)
    place.create("loans")
    for partition in (0, 1):
        base = partition * 100
        place.publish(
            [
                *loans(first, V1, [base, base + 1], partition),
                *loans(third, V3, [base + 2], partition, note="x", term=36),
                *loans(second, V2, [base + 3], partition, note="y"),
                *loans(first, V1, [base + 4], partition),
            ]
        )
    return place


def rows(place: Place, **options: object) -> list[dict[str, Any]]:
    """What Spark would be given, read in this process."""
    source = DragomanSource(place.options(**options))
    reader = source.reader(source.schema())
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["_meta"]["partition"], row["_meta"]["offset"]))


def test_mixed_versions_are_read_as_the_latest(mixed: Place) -> None:
    found = rows(mixed)

    assert [row["id"] for row in found] == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert [row["amount"] for row in found[:5]] == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert [row["note"] for row in found[:5]] == [None, None, "x", "y", None]
    assert [row["term"] for row in found[:5]] == [12, 12, 36, 12, 12]
    assert all(row["_error"] is None and row["_frame"] is None for row in found)
    assert [row["_meta"]["writer_version"] for row in found[:5]] == [1, 1, 3, 2, 1]
    assert {row["_meta"]["contract_version"] for row in found} == {3}
    assert [row["_meta"]["offset"] for row in found[:5]] == [0, 1, 2, 3, 4]


def read_after_version_two(place: Place, **options: object) -> list[dict[str, Any]]:
    """The DataFrame is made while version 1 is the latest; the message of version 2 comes before the read."""
    (first,) = place.register("loans-value", V1)
    place.create("loans", 1)
    place.publish(loans(first, V1, [1, 2]))
    source = DragomanSource(place.options(**options))
    reader = source.reader(source.schema())
    (second,) = place.register("loans-value", loan(NOTE))
    place.publish(loans(second, loan(NOTE), [3], note="added"))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_batch_stops_before_it_drops_the_fields_of_a_version_that_came_later(place: Place) -> None:
    with pytest.raises(Conflict, match="version 2 of its contract, and is read as version 1") as caught:
        read_after_version_two(place)

    assert caught.value.code == "pipeline.newer-version"
    assert caught.value.where == {"channel": "loans", "contract": "loans-value"}
    assert "Make the DataFrame again" in caught.value.next
    assert [row["note"] for row in rows(place)] == [None, None, "added"]


@pytest.mark.parametrize(
    "options",
    [{"version": "1"}, {"version": "writer"}, {"mode": "raw"}, {"endingOffsets": '{"0": 2}'}],
    ids=str,
)
def test_a_batch_that_drops_nothing_or_was_told_to_is_read(place: Place, options: dict[str, str]) -> None:
    found = read_after_version_two(place, **options)

    assert len(found) == (2 if "endingOffsets" in options else 3)
    assert all(row.get("_error") is None for row in found)


def test_an_older_reader_version_drops_fields_and_rejects_what_it_cannot_read(mixed: Place) -> None:
    found = rows(mixed, version=2)

    codes = [row["_error"]["code"] if row["_error"] else None for row in found[:5]]
    assert codes == [None, None, "message.decode.incompatible", None, None]
    assert [row["amount"] for row in found[:5]] == [0, 10, None, 30, 40]
    assert found[2]["_frame"] is not None and found[2]["_error"]["path"] == "amount"


def test_the_writers_own_versions_can_be_kept_whole(mixed: Place) -> None:
    found = rows(mixed, version="writer", whole="json")

    assert json.loads(found[2]["value"]) == {"id": 2, "amount": 20.0, "note": "x", "term": 36}
    assert json.loads(found[0]["value"]) == {"id": 0, "amount": 0}


def test_raw_gives_frames(mixed: Place) -> None:
    found = rows(mixed, mode="raw", partitions="1")

    assert len(found) == 5
    assert bytes(found[0]["frame"])[5:] == payload(V1, {"id": 100, "amount": 1000})
    assert found[0]["schema_id"] == found[0]["_meta"]["schema_id"]


def test_offsets_and_times_bound_what_is_read(mixed: Place) -> None:
    between = rows(mixed, startingOffsets='{"loans": {"0": 1, "1": 5}}', endingOffsets='{"0": 3, "1": -1}')
    past = rows(mixed, endingOffsets="2001-01-01T00:00:00Z")

    assert [row["id"] for row in between] == [1, 2]
    assert past == []


def test_more_tasks_than_partitions_read_each_message_once(mixed: Place) -> None:
    source = DragomanSource(mixed.options(minPartitions=6))

    assert len(source.reader(source.schema()).partitions()) >= 6
    assert [row["id"] for row in rows(mixed, minPartitions=6)] == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]


def test_bad_messages_keep_their_frames_and_reasons_and_harm_no_other(mixed: Place) -> None:
    mixed.publish(
        [
            Message("loans", b"hello world", partition=0),
            Message("loans", b"\0\0", partition=0),
            Message("loans", frame(999, b"x"), partition=0),
            Message("loans", frame(1, payload(V1, {"id": 7, "amount": 7}) + b"!"), partition=0),
            Message("loans", None, key=b"k", partition=0),
            Message(
                "loans",
                frame(1, payload(V1, {"id": 8, "amount": 8})),
                b"k",
                (("expires-at", b"1"),),
                partition=0,
            ),
            *loans(1, V1, [9]),
        ]
    )

    found = rows(mixed, partitions="0")[5:]

    codes = [row["_error"]["code"] if row["_error"] else None for row in found]
    assert codes == [
        "message.frame.foreign",
        "message.frame.truncated",
        "message.unknown-schema",
        "message.decode.trailing",
        None,
        "message.expired",
        None,
    ]
    assert bytes(found[0]["_frame"]) == b"hello world"
    assert (
        found[4]["id"] is None and found[4]["_meta"]["key"] == b"k" and found[4]["_meta"]["schema_id"] is None
    )
    assert found[5]["_meta"]["headers"][0]["name"] == "expires-at"
    assert found[6]["id"] == 9


def test_mode_fail_stops_at_the_first_bad_message_and_says_where(mixed: Place) -> None:
    mixed.publish([Message("loans", b"hello world", partition=1)])

    with pytest.raises(DecodeError, match=r"does not start with a zero byte.*partition 1, offset 5"):
        rows(mixed, mode="fail")


def test_an_empty_channel_gives_no_rows(place: Place) -> None:
    place.register("loans-value", V1)
    place.create("loans")

    assert rows(place) == []


def test_channels_with_different_contracts_need_to_be_told_which(mixed: Place) -> None:
    mixed.register("other-value", loan(amount="string"))
    mixed.create("other", 1)

    with pytest.raises(ConfigurationError, match="Set the option contract"):
        rows(mixed, channel="loans, other")


def test_offsets_of_a_channel_that_is_not_read_are_refused(mixed: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"offsets for lones, which is not read.*loans"):
        rows(mixed, startingOffsets=json.dumps({"lones": {"0": 3}}))


def test_a_version_that_is_none_is_refused(mixed: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be 'newest'.*latest, or a version's number"):
        schemas(RegistryAccess(mixed.registry)).reader("loans-value", "newest")


def test_heavy_messages_make_batches_of_their_own(mixed: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.adapters.embedded.log.SLICE_MESSAGES", 1)
    reader = RangeReader(plan.make_plan(parse_options(mixed.options()), 30.0), None, 30.0)

    mixed.publish(loans(1, V1, [5]))

    assert [len(each) for each in reader.columns(Range("loans", 0, 0, 6))] == [6]
    monkeypatch.setattr(reading, "BATCH_BYTES", 1)
    assert [len(each) for each in reader.columns(Range("loans", 0, 0, 6))] == [5, 1]


def test_messages_no_longer_kept_are_not_passed_over_in_silence(mixed: Place) -> None:
    kept = {"loans": {0: (3, 5)}}
    wanted = [Range("loans", 0, 1, 5)]

    known = {"loans": {"0": 1}}

    with pytest.raises(BrokerError, match="from 1 to 2 are not kept"):
        refuse_lost(wanted, kept, known, parse_options(mixed.options()))
    refuse_lost(wanted, kept, known, parse_options(mixed.options(failOnDataLoss="false")))
    refuse_lost(wanted, kept, {"loans": {"1": 0}}, parse_options(mixed.options()))


def test_a_channel_that_was_made_anew_is_not_waited_for_in_silence(mixed: Place) -> None:
    source = DragomanSource(mixed.options())
    reader = source.streamReader(source.schema())

    with pytest.raises(BrokerError, match="were read up to 900, but end at 5 now"):
        reader.latestOffset({"loans": {"0": 900, "1": 0}}, reader.getDefaultReadLimit())


def test_messages_that_vanish_while_they_are_read_are_missed(mixed: Place) -> None:
    source = DragomanSource(mixed.options())
    reader = source.reader(source.schema())

    with pytest.raises(BrokerError, match="from 5 to 6 are not there"):
        list(reader.read(RangePartition((Range("loans", 0, 3, 7),))))


def test_a_channel_that_is_not_there_is_named(mixed: Place) -> None:
    mixed.register("ghosts-value", V1)

    with pytest.raises(ChannelNotFound, match="ghosts"):
        DragomanSource(mixed.options(channel="ghosts")).schema()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_three_writer_versions_are_read_by_every_reader_version(mixed: Place, version: int) -> None:
    """What Avro's rules allow becomes a row; a double is not narrowed, it is set apart."""
    found = rows(mixed, version=version, partitions="0")
    readable = {1: {1}, 2: {1, 2}, 3: {1, 2, 3}}[version]
    fields = ["id", "amount", "note", "term"][: version + 1]

    for row in found:
        number, writer = row["id"], row["_meta"]["writer_version"]
        if writer not in readable:
            assert row["_error"]["code"] == "message.decode.incompatible" and row["_frame"] is not None
            continue
        expected = {
            "id": number,
            "amount": number * 10,
            "note": {1: None, 2: "y", 3: "x"}[writer],
            "term": 36 if writer == 3 else 12,
        }
        assert {name: row[name] for name in fields} == {name: expected[name] for name in fields}
    assert len(found) == 5
    assert {row["_meta"]["contract_version"] for row in found} == {version}


class WideLog:
    """A broker's log of very many partitions with three messages each."""

    def partitions(self, channel: str) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(range(10_000), (0, 3))


def test_ten_thousand_partitions_are_planned(mixed: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (plan, batch, stream):
        monkeypatch.setattr(module, "open_log", lambda broker: WideLog())
    bounds = json.dumps({str(partition): 2 for partition in range(10_000)})
    source = DragomanSource(mixed.options(startingOffsets=bounds, partitions="0-9999", maxRowsPerTrigger=500))
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    whole = DragomanSource(mixed.options(endingOffsets=bounds))
    tasks = whole.reader(whole.schema()).partitions()

    assert sum(end["loans"].values()) - sum(start["loans"].values()) == 500
    assert len(reader.partitions(start, end)) == 500
    assert len(tasks) <= 2_000
    assert sum(each.end - each.start for task in tasks for each in task.ranges) == 20_000


def test_very_many_ranges_are_read_by_few_tasks_and_none_is_missed() -> None:
    ranges = [Range("c", number, 0, 1 + number % 7) for number in range(10_000)]

    tasks = grouped(ranges)

    assert len(tasks) <= 2_000
    assert [each for task in tasks for each in task] == ranges
    assert grouped(ranges[:3]) == [(each,) for each in ranges[:3]]


def test_channels_can_be_a_pattern_if_they_share_a_contract(mixed: Place) -> None:
    mixed.create("loans.eu", 1)
    mixed.publish([Message("loans.eu", each.payload, partition=0) for each in loans(1, V1, [500])])

    found = rows(mixed, channel="loans*", contract="loans-value")

    assert {(row["_meta"]["channel"], row["id"]) for row in found} >= {("loans.eu", 500), ("loans", 100)}
