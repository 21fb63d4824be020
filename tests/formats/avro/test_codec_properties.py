"""Compiled codecs against fastavro, over random schemas and data."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.avro.strategies import neighbours, schemas, successors, values

from dragoman.core.errors import DecodeError, IncompatibleSchema, MessageError
from dragoman.formats.avro import AvroFormat

pytestmark = pytest.mark.usefixtures("both_ways")
avro = AvroFormat()
relaxed = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=list(HealthCheck),
)


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(data: bytes, writer: Any, reader: Any = None) -> Any:
    target = fastavro.parse_schema(reader) if reader is not None else None
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(writer), target)


@given(st.data())
@relaxed
def test_bytes_and_values_equal_fastavros(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    codec = avro.codec(avro.parse(json.dumps(schema)))
    expected = written(schema, value)
    assert codec.encode(value) == expected
    assert codec.decode(expected) == read(expected, schema) == value


@given(st.data())
@relaxed
def test_a_later_reader_gets_what_fastavro_resolves(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    later = data.draw(successors(schema))
    value = data.draw(values(schema))
    writer, reader = avro.parse(json.dumps(schema)), avro.parse(json.dumps(later))
    assert avro.incompatibilities(reader, writer) == ()
    encoded = written(schema, value)
    assert avro.codec(writer, reader).decode(encoded) == read(encoded, schema, later)


@given(st.data())
@relaxed
def test_what_is_judged_compatible_can_be_read(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    other = data.draw(neighbours(schema))
    writer, reader = avro.parse(json.dumps(schema)), avro.parse(json.dumps(other))
    if avro.incompatibilities(reader, writer):
        try:
            avro.codec(writer, reader)
        except IncompatibleSchema:
            return
        raise AssertionError("A codec was compiled for schemas that are not compatible.")
    codec = avro.codec(writer, reader)
    for _ in range(3):
        value = data.draw(values(schema))
        try:
            decoded = codec.decode(avro.codec(writer).encode(value))
        except DecodeError as error:
            # Bytes that are no text cannot be read as one, whatever the schemas say.
            assert "utf-8" in str(error)
        else:
            avro.codec(reader).encode(decoded)


@given(st.data())
@relaxed
def test_damaged_bytes_never_do_worse_than_a_message_error(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    codec = avro.codec(avro.parse(json.dumps(schema)))
    payload = bytearray(codec.encode(data.draw(values(schema))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload)))
        match data.draw(st.integers(0, 2)):
            case 0:
                payload[at:] = b""
            case 1:
                payload[at : at + 1] = data.draw(st.binary(min_size=1, max_size=10))
            case _:
                payload[at:at] = data.draw(st.sampled_from([b"\xff" * 9, b"\x01", b"\x80\x80\x04"]))
    with contextlib.suppress(MessageError):
        codec.decode(bytes(payload))


@given(st.data(), st.binary(max_size=60))
@relaxed
def test_random_bytes_are_decoded_or_refused_also_when_skipped(data: st.DataObject, payload: bytes) -> None:
    schema = data.draw(schemas())
    writer = {"type": "record", "name": "Outer", "fields": [{"name": "gone", "type": schema}]}
    reader = {"type": "record", "name": "Outer", "fields": []}
    whole = avro.codec(avro.parse(json.dumps(writer)))
    skipping = avro.codec(avro.parse(json.dumps(writer)), avro.parse(json.dumps(reader)))
    try:
        whole.decode(payload)
    except MessageError:
        try:
            skipping.decode(payload)
        except MessageError:
            return
    else:
        assert skipping.decode(payload) == {}
