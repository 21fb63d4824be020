"""Accepted messages that cannot be read any more: the source stops at them, or leaves them out."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.source.channels import Place

import dragoman
from dragoman.core import errors
from dragoman.core.errors import DamagedLog, DragomanError
from dragoman.core.message import Message
from dragoman.pipeline.faults import across_spark, spark_faults, translated
from dragoman.pipeline.source import DragomanSource

COUNT = 40
MARK = re.compile(rb"message (\d\d)")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Forty messages, each in a block of its own."""
    place = Place(tmp_path)
    place.create("c", partitions=1)
    for number in range(COUNT):
        place.publish([Message("c", b"message %02d" % number, partition=0)])
    return place


def log_of(place: Place) -> Path:
    [path] = (place.folder / "broker").rglob("*.log")
    return path


def damage(place: Place, *numbers: int) -> None:
    path = log_of(place)
    path.write_bytes(
        MARK.sub(
            lambda found: b"massage" + found[0][7:] if int(found[1]) in numbers else found[0],
            path.read_bytes(),
        )
    )


def cut(place: Place, before: int) -> None:
    """A power failure took what was not on the disk yet; more is published after it."""
    path = log_of(place)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"message %02d" % before)])
    place.publish([Message("c", b"message %02d" % COUNT, partition=0)])


def batch(place: Place, **more: object) -> list[int]:
    source = DragomanSource(place.options("c", mode="raw", **more))
    reader = source.reader(source.schema())
    return offsets(batch for part in reader.partitions() for batch in reader.read(part))


def stream(place: Place, **more: object) -> list[int]:
    source = DragomanSource(place.options("c", mode="raw", **more))
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return offsets(batch for part in reader.partitions(start, end) for batch in reader.read(part))


def offsets(batches: Iterator[Any]) -> list[int]:
    return sorted(row["_meta"]["offset"] for batch in batches for row in batch.to_pylist())


def left_out(caplog: pytest.LogCaptureFixture) -> int:
    return sum(
        each.args[0]
        for each in caplog.records
        if each.msg.startswith("Left out") and isinstance(each.args, tuple) and isinstance(each.args[0], int)
    )


@pytest.mark.parametrize("read", [batch, stream])
@pytest.mark.parametrize("tasks", [1, 7])
@pytest.mark.parametrize("numbers", [[0], [17], [5, 6, 7, 20], [COUNT - 1], list(range(COUNT))])
def test_damaged_messages_are_left_out_and_counted_if_loss_is_allowed(
    place: Place, caplog: pytest.LogCaptureFixture, read: Any, tasks: int, numbers: list[int]
) -> None:
    damage(place, *numbers)

    with caplog.at_level(logging.WARNING, logger="dragoman.pipeline"):
        found = read(place, failOnDataLoss="false", minPartitions=tasks)

    assert found == [number for number in range(COUNT) if number not in numbers]
    assert left_out(caplog) == len(numbers)


@pytest.mark.parametrize("read", [batch, stream])
@pytest.mark.parametrize("tasks", [1, 7])
def test_a_log_that_was_cut_by_a_power_failure_is_read_on_behind_it(
    place: Place, caplog: pytest.LogCaptureFixture, read: Any, tasks: int
) -> None:
    cut(place, 33)

    with caplog.at_level(logging.WARNING, logger="dragoman.pipeline"):
        found = read(place, failOnDataLoss="false", minPartitions=tasks)

    assert found == [*range(33), COUNT]
    assert left_out(caplog) == COUNT - 33


@pytest.mark.parametrize("read", [batch, stream])
def test_otherwise_the_source_stops_and_names_its_own_way_on(place: Place, read: Any) -> None:
    damage(place, 17, 18)

    with pytest.raises(DamagedLog) as caught:
        read(place)

    assert (caught.value.first, caught.value.code) == (17, "broker.damaged")
    assert caught.value.where["channel"] == "c" and caught.value.where["partition"] == 0
    assert "failOnDataLoss" in caught.value.next and "channel skip" not in caught.value.next


def test_spark_hands_on_the_damage_with_its_place_and_what_to_do(spark: Any, place: Place) -> None:
    damage(place, 17)
    frame = spark.read.format("dragoman").options(**place.options("c", mode="raw")).load()

    with pytest.raises(DragomanError) as caught, spark_faults():
        frame.count()

    error = caught.value
    assert (error.code, error.where["offset"], error.where["count"]) == ("broker.damaged", 17, 1)
    assert "failOnDataLoss" in error.next
    assert (
        frame.sparkSession.read.format("dragoman")
        .options(**place.options("c", mode="raw", failOnDataLoss="false"))
        .load()
        .count()
        == COUNT - 1
    )


def classes(root: type[DragomanError] = DragomanError) -> Iterator[type[DragomanError]]:
    yield root
    for each in root.__subclasses__():
        yield from classes(each)


def test_every_error_of_ours_crosses_spark_whole() -> None:
    for each in pkgutil.walk_packages(dragoman.adapters.__path__, "dragoman.adapters."):
        importlib.import_module(each.name)
    foreign = 0
    for kind in {each for each in classes() if each.__module__.startswith("dragoman.")}:
        error = kind.__new__(kind)
        DragomanError.__init__(
            error, 'It "broke":\n{so}.', next="Mend it.", code="a.code", channel="c", offset=3
        )
        try:
            with across_spark(), across_spark():
                raise error
        except DragomanError:
            found = translated(f"Job aborted:\n{traceback.format_exc()}\n\tat org.apache.spark\n")
        assert (found.what, found.code, found.next) == (error.what, error.code, error.next), kind
        assert dict(found.where) == dict(error.where)
        assert isinstance(error, type(found))
        known = getattr(errors, kind.__name__, None) is kind
        assert not known or type(found) is kind
        foreign += not known
    assert foreign


def test_an_error_of_ours_without_a_note_is_still_known() -> None:
    name = f"{DamagedLog.__module__}.DamagedLog"
    found = translated(f"Traceback:\n{name}: It broke.\n")
    assert (type(found), found.what, found.code) == (DamagedLog, "It broke.", "broker.damaged")
    found = translated("Traceback:\ndragoman.adapters.embedded.errors.DiskFull: It is full.\n")
    assert found.what == "It is full."
