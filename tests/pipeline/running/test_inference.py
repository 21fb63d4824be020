"""Contracts proposed from untyped messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.pipeline.source.channels import Place

from dragoman.core.errors import ConfigurationError, DecodeError
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
