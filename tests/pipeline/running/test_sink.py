"""A batch that is tried again after it was committed, as when the driver died before Spark knew of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.running.conftest import BAD, GOOD
from tests.pipeline.running.sinks import Sink
from tests.pipeline.source.channels import V2, Place, loans

from dragoman.pipeline.running import Flow
from dragoman.pipeline.state import Decision
from dragoman.pipeline.tables import TABLE_FORMATS

KEPT = [
    *((table_format, ()) for table_format in TABLE_FORMATS),
    *((table_format, keys) for table_format in ("delta", "iceberg") for keys in (("id",), ("key",))),
]


def sink_of(place: Place, table_format: str, merge_by: tuple[str, ...]) -> Sink:
    """Of the loans, each with a key of its own."""
    (second,) = place.register("keyed-value", V2)
    place.create("keyed", 1)
    for each in loans(second, V2, range(GOOD), note=None):
        place.publish([each._replace(channel="keyed", key=each.payload, partition=0)])
    place.publish([each._replace(channel="keyed") for each in loans(99, V2, range(BAD), note=None)])
    return Sink(place, Flow("keyed", merge_by=merge_by), table_format)


def noting(method: Callable[..., None], given: list[str]) -> Callable[..., None]:
    def noted(self: Any, *rest: Any) -> None:
        given.append(self.name)
        method(self, *rest)

    return noted


@pytest.mark.parametrize(("table_format", "merge_by"), KEPT)
def test_a_committed_batch_is_not_given_to_its_tables_again(
    place: Place, table_format: str, merge_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(place, table_format, merge_by)
    written = sink.write()
    sink.writer.commit([written], 0)
    given: list[str] = []
    kind = type(sink.table)
    for method in ("append", "upsert"):
        monkeypatch.setattr(kind, method, noting(getattr(kind, method), given))
    sink.writer.commit([written], 0)
    assert given == []
    assert sink.ids() == list(range(GOOD)) and sink.quarantine.count() == BAD


@pytest.mark.parametrize("merge_by", [("id",), ("key",)])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_committed_merge_needs_its_files_no_more(
    place: Place, table_format: str, merge_by: tuple[str, ...]
) -> None:
    """A merge copies the rows, so the files belong to no table, and another's vacuum may remove them."""
    sink = sink_of(place, table_format, merge_by)
    written = sink.write()
    sink.writer.commit([written], 0)
    for file in written.valid:
        Path(sink.table.folder, file.path).unlink()
    sink.writer.commit([written], 0)
    assert sink.ids() == list(range(GOOD)) and sink.quarantine.count() == BAD


@pytest.mark.parametrize(("table_format", "merge_by"), KEPT)
def test_what_one_table_lacks_is_added_to_it_alone(
    place: Place, table_format: str, merge_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died between the commit of the quarantine and that of the table."""
    sink = sink_of(place, table_format, merge_by)
    written = sink.write()
    decision = sink.state.decide(Decision(0, written.read, written.valid, written.quarantined))
    sink.quarantine.append(decision.quarantined, sink.writer.plan.application, 0)
    given: list[str] = []
    kind = type(sink.table)
    for method in ("append", "upsert"):
        monkeypatch.setattr(kind, method, noting(getattr(kind, method), given))
    sink.writer.commit([written], 0)
    assert set(given) == {sink.table.name}
    assert sink.ids() == list(range(GOOD)) and sink.quarantine.count() == BAD
