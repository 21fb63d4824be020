"""What is set apart, tried again, promised and swept up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.running.conftest import BAD, GOOD
from tests.pipeline.running.sinks import Sink
from tests.pipeline.source.channels import V1, V2, V3, Place, loans

from dragoman.client.headers import EXPIRES_AT
from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.core.message import Message
from dragoman.pipeline.kept import kept_table
from dragoman.pipeline.options import parse_options
from dragoman.pipeline.quarantined import Retried, Retry, Which, discard, entries
from dragoman.pipeline.running import Flow
from dragoman.pipeline.tables import TABLE_FORMATS
from dragoman.pipeline.vacuum import vacuum

LOANS = Flow("loans")
NEXT_ID = 3
"""The id of the schema that is registered after those of the fixture."""


def retry(sink: Sink) -> Retry:
    options = parse_options(sink.place.options(sink.flow.channel, **dict(sink.flow.options)))
    return Retry(sink.flow, sink.table, sink.quarantine, sink.state, options)


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_messages_move_once_their_schema_is_known(place: Place, table_format: str) -> None:
    place.publish(loans(NEXT_ID, V3, [500, 501], note=None, term=1))
    sink = Sink(place, LOANS, table_format)
    sink.run()
    assert retry(sink).run(Which()) == Retried(0, BAD + 2)
    assert place.register("loans-value", V3) == [NEXT_ID]
    assert retry(sink).run(Which(code="message.unknown-schema")) == Retried(2, 0)
    assert sink.ids() == [*range(GOOD), 500, 501]
    assert entries(sink.quarantine, Which()).num_rows == BAD


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_move_that_is_cut_short_is_finished_by_the_next(
    place: Place, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.publish(loans(NEXT_ID, V3, [500], note=None, term=1))
    sink = Sink(place, LOANS, table_format)
    sink.run()
    place.register("loans-value", V3)
    work = retry(sink)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(sink.quarantine), "remove", interrupted)
        work.run(Which())
    assert 500 in sink.ids()
    vacuum(sink.table, [sink.state], -60)
    assert retry(sink).run(Which()) == Retried(0, BAD)
    assert sink.ids() == [*range(GOOD), 500]
    assert entries(sink.quarantine, Which()).num_rows == BAD


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_files_of_a_move_that_has_begun_are_not_swept_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.publish(loans(NEXT_ID, V3, [500], note=None, term=1))
    sink = Sink(place, LOANS)
    sink.run()
    place.register("loans-value", V3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(sink.table), "append", interrupted)
        retry(sink).run(Which())
    assert vacuum(sink.table, [sink.state], -60) == []
    retry(sink).run(Which())
    assert sink.ids() == [*range(GOOD), 500]


def test_messages_of_several_channels_are_read_as_their_own_contracts(place: Place) -> None:
    place.register("loans.eu-value", V2)
    place.create("loans.eu", 1)
    place.publish([each._replace(channel="loans.eu") for each in loans(2, V2, [900], note="eu")])
    place.publish(loans(NEXT_ID, V1 | {"doc": "later"}, [500]))
    later = [each._replace(channel="loans.eu") for each in loans(NEXT_ID, V1, [901])]
    place.publish(later)
    sink = Sink(place, Flow("loans, loans.eu", table="both"))
    sink.run()
    assert place.register("other-value", V1 | {"doc": "later"}) == [NEXT_ID]
    assert retry(sink).run(Which(schema_id=NEXT_ID)) == Retried(2, 0)
    assert sink.ids() == [*range(GOOD), 500, 900, 901]


def test_a_late_message_does_not_replace_one_that_came_after_it(place: Place) -> None:
    place.create("keyed", 1)
    place.register("keyed-value", V2)
    place.publish([keyed(NEXT_ID, 1, b"a"), keyed(NEXT_ID, 2, b"b"), keyed(2, 3, b"a")])
    sink = Sink(place, Flow("keyed", merge_by=("key",)))
    sink.run()
    assert sink.ids() == [3]
    place.register("other-value", V2 | {"doc": "later"})
    assert retry(sink).run(Which()) == Retried(1, 0, outdated=1)
    assert sink.ids() == [2, 3]
    assert entries(sink.quarantine, Which()).num_rows == 0


def keyed(schema_id: int, number: int, key: bytes) -> Message:
    (made,) = loans(schema_id, V2, [number], note=None)
    return made._replace(channel="keyed", key=key)


def tombstone(key: bytes, **headers: bytes) -> Message:
    return Message("keyed", None, key=key, partition=0, headers=tuple(headers.items()))


@pytest.fixture(params=["delta", "iceberg"])
def merged(place: Place, request: pytest.FixtureRequest) -> Callable[..., Sink]:
    """A table merged by key after some batches of messages, some of them with a schema not known yet."""

    def run(*batches: Sequence[Message]) -> Sink:
        place.create("keyed", 1)
        place.register("keyed-value", V2)
        for number, messages in enumerate(batches):
            place.publish(messages)
            sink = Sink(place, Flow("keyed", merge_by=("key",)), request.param)
            sink.run(number, since=sum(map(len, batches[:number])))
        place.register("other-value", V2 | {"doc": "later"})
        return sink

    return run


def test_a_late_message_does_not_bring_back_a_key_that_was_removed_after_it(
    merged: Callable[..., Sink],
) -> None:
    early = [keyed(NEXT_ID, 1, b"a"), keyed(NEXT_ID, 2, b"b"), keyed(NEXT_ID, 3, b"c"), tombstone(b"c")]
    sink = merged(early, [tombstone(b"a"), tombstone(b"z")], [keyed(2, 9, b"y")])
    assert retry(sink).run(Which()) == Retried(1, 0, outdated=2)
    assert sink.ids() == [2, 9]
    assert entries(sink.quarantine, Which()).num_rows == 0


def test_a_late_message_that_came_after_the_removal_of_its_key_is_kept(merged: Callable[..., Sink]) -> None:
    sink = merged([keyed(NEXT_ID, 1, b"a"), tombstone(b"a")], [keyed(NEXT_ID, 2, b"a")])
    assert retry(sink).run(Which()) == Retried(1, 0, outdated=1)
    assert sink.ids() == [2]


def test_only_removals_that_somebody_may_ask_for_are_kept(merged: Callable[..., Sink]) -> None:
    sink = merged([keyed(NEXT_ID, 1, b"a")], [tombstone(b"a"), tombstone(b"b")])
    assert sink.state.deleted() == {b"a": (0, 1)}
    retry(sink).run(Which())
    sink.place.publish([tombstone(b"c")])
    sink.run(2, since=3)
    assert sink.state.deleted() == {}


def test_another_pipelines_removals_count_too(merged: Callable[..., Sink]) -> None:
    sink = merged([keyed(NEXT_ID, 1, b"a")])
    other = type(sink.state)(sink.state.home.with_name("other-keyed"))
    settings = {"channel": "keyed", "table": "keyed", "merge_by": ["key"], "partition_by": [], "options": []}
    other.remember({**settings, "format": "delta"})
    other.set_deleted({b"a": (0, 5)})
    assert retry(sink).run(Which()) == Retried(0, 0, outdated=1)
    assert sink.ids() == []


def test_a_removal_that_had_expired_still_removes_when_it_is_tried_again(merged: Callable[..., Sink]) -> None:
    expired = [tombstone(key, **{EXPIRES_AT: b"1"}) for key in (b"a", b"b")]
    sink = merged([keyed(NEXT_ID, 1, b"a"), keyed(2, 2, b"b")], expired)
    assert sink.ids() == [2]
    assert retry(sink).run(Which(code="message.expired")).moved == 2
    assert sink.ids() == []
    assert retry(sink).run(Which()) == Retried(0, 0, outdated=1), "the older one was not tried with it"
    assert sink.ids() == []


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_driver_that_dies_between_the_commits_loses_and_doubles_nothing(
    place: Place, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(place, LOANS, table_format)
    first = sink.write()
    kind, name = type(sink.table), sink.table.name
    append = kind.append

    def dies_at_the_table(self: Any, *rest: Any) -> None:
        if self.name == name:
            raise KeyboardInterrupt
        append(self, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kind, "append", dies_at_the_table)
        sink.writer.commit([first], 0)
    assert entries(sink.quarantine, Which()).num_rows == BAD and sink.table.count() == 0
    again = sink.write()
    for _ in range(2):
        sink.writer.commit([again], 0)
    assert sink.ids() == list(range(GOOD))
    assert entries(sink.quarantine, Which()).num_rows == BAD
    assert sink.pipeline.progress(LOANS, None).read == GOOD + BAD
    swept = vacuum(sink.table, [sink.state], -60) + vacuum(sink.quarantine, [sink.state], -60)
    assert len(swept) == len(again.valid) + len(again.quarantined)
    assert sink.ids() == list(range(GOOD))


def test_a_message_in_quarantine_can_be_discarded(place: Place) -> None:
    sink = Sink(place, LOANS)
    sink.run()
    assert discard(sink.quarantine, Which(partition=0)) == 1
    assert entries(sink.quarantine, Which())["partition"].to_pylist() == [1]


def test_young_files_are_left_alone(place: Place) -> None:
    sink = Sink(place, LOANS)
    sink.run()
    orphan = Path(sink.table.folder, "data", "orphan.parquet")
    orphan.write_bytes(b"left behind")
    assert vacuum(sink.table, [sink.state], 3600) == []
    assert vacuum(sink.table, [sink.state], -60, dry_run=True) == [orphan]
    assert vacuum(sink.table, [sink.state], -60) == [orphan]
    assert not orphan.exists()
    assert sink.ids() == list(range(GOOD))


def test_what_a_table_library_left_behind_is_swept_up_too(place: Place) -> None:
    """A killed merge or compaction leaves files beside our own; the log of the table is not touched."""
    sink = Sink(place, Flow("loans", partition_by=("id",)))
    sink.run()
    sink.table.compact()
    orphan = Path(sink.table.folder, "id=7", "part-00000.parquet")
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"left behind")
    log = Path(sink.table.folder, "_delta_log", "kept.parquet")
    log.write_bytes(b"")
    assert vacuum(sink.table, [sink.state], -60) == [orphan]
    assert log.exists()
    assert sink.ids() == list(range(GOOD))


def test_the_event_log_tells_each_batch(place: Place) -> None:
    sink = Sink(place, LOANS)
    sink.run()
    (line,) = sink.state.events.read_text().splitlines()
    event = json.loads(line)
    assert (event["read"], event["valid"], event["quarantined"]) == (GOOD + BAD, GOOD, BAD)


def test_a_table_of_two_pipelines_is_looked_after_as_one(place: Place) -> None:
    flow = Flow("loans", table="t")
    sink = Sink(place, flow)
    target = sink.pipeline.to
    for name in ("one", "two"):
        settings = {"channel": "loans", "table": "t", "merge_by": [], "partition_by": [], "options": []}
        sink.state.home.with_name(f"{name}-t").mkdir(parents=True)
        type(sink.state)(sink.state.home.with_name(f"{name}-t")).remember({**settings, "format": "delta"})
    assert [state.home.name for state in kept_table(target).states] == ["one-t", "two-t"]
    with kept_table(target, "t").held():
        pass
    with pytest.raises(NotFound, match="such a table"):
        kept_table(target, "other")
    settings = {"channel": "c", "table": "u", "merge_by": [], "partition_by": [], "options": []}
    type(sink.state)(sink.state.home.with_name("one-u")).remember({**settings, "format": "delta"})
    with pytest.raises(ConfigurationError, match="several"):
        kept_table(target)


def test_state_kept_elsewhere_is_found_from_the_tables(place: Place, tmp_path: Path) -> None:
    sink = Sink(place, LOANS)
    elsewhere = tmp_path / "elsewhere" / "pipeline-loans"
    state = type(sink.state)(elsewhere, sink.state.home)
    settings = {"channel": "loans", "table": "loans", "merge_by": [], "partition_by": [], "options": []}
    state.remember({**settings, "format": "delta"})
    (found,) = kept_table(sink.pipeline.to).states
    assert found.folder == elsewhere
    assert [file.name for file in found.home.iterdir()] == ["flow.json"]
