"""Contracts proposed from untyped messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.pipeline.source.channels import Place

from dragoman.cli import main
from dragoman.core.errors import ConfigurationError, DamagedLog, DecodeError
from dragoman.core.loading import FORMATS, load
from dragoman.core.message import Message
from dragoman.pipeline.inference import infer_schema

EVENTS = [{"id": 1, "name": "a", "tags": ["x"]}, {"id": 2, "name": None, "tags": []}]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.create("raw.events")
    made.publish([Message("raw.events", json.dumps(event).encode()) for event in EVENTS])
    return made


def test_every_message_fits_the_json_schema_that_is_proposed(place: Place) -> None:
    formatted = load(FORMATS, "JSON")()
    codec = formatted.codec(formatted.parse(infer_schema(place.broker, "raw.events", 100)))
    assert [codec.decode(json.dumps(event).encode()) for event in EVENTS] == EVENTS


@pytest.mark.parametrize("schema_type", ["AVRO", "PROTOBUF", "THRIFT"])
def test_other_formats_are_proposed_too(place: Place, schema_type: str) -> None:
    text = infer_schema(place.broker, "raw.events", 100, schema_type)
    assert load(FORMATS, schema_type)().parse(text).name.endswith("RawEvents")


def test_a_message_that_is_not_json_is_named_with_its_place(place: Place) -> None:
    place.publish([Message("raw.events", b"\x00", partition=0)])
    with pytest.raises(DecodeError) as caught:
        infer_schema(place.broker, "raw.events", 100)
    assert caught.value.where["partition"] == 0


def test_an_empty_channel_teaches_nothing(place: Place) -> None:
    place.create("silent")
    with pytest.raises(ConfigurationError, match="no messages"):
        infer_schema(place.broker, "silent", 100)


def test_damaged_messages_teach_nothing_and_do_not_keep_the_others_from_it(place: Place) -> None:
    for number in range(3):
        place.publish([Message("raw.events", b'{"id": 7, "only%d": 1}' % number, partition=0)])
    [path] = [each for each in place.folder.rglob("*.log") if b"only1" in each.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"only1", b"ONLY1"))
    with pytest.raises(DamagedLog):
        infer_schema(place.broker, "raw.events", 100)
    left_out: list[DamagedLog] = []
    proposed = infer_schema(place.broker, "raw.events", 100, damaged=left_out.append)
    assert "only0" in proposed and "only2" in proposed and "only1" not in proposed.lower()
    assert [each.until - each.first for each in left_out] == [1]


def test_the_command_names_the_way_past_damage(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*more: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["pipeline", "infer", "--channel", "raw.events", "--broker", place.broker, *more])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    place.publish([Message("raw.events", b'{"only": 1}', partition=0)])
    [path] = [each for each in place.folder.rglob("*.log") if b"only" in each.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"only", b"ONLY"))
    code, printed, about = run()
    assert (code, printed) == (2, "") and "--skip-damaged" in about
    code, printed, about = run("--skip-damaged")
    assert code in (0, None) and "tags" in printed and "Left out 1 damaged" in about
