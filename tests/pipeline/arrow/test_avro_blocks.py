"""Every reader ends an array or map at a block of no items, however that zero is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.arrow.avro_cases import read_by_fastavro, roots, schema_text, values, written
from tests.services.fixtures import missing

from dragoman.core.errors import MessageError
from dragoman.formats.avro import AvroFormat
from dragoman.formats.avro.native import BUILT
from dragoman.pipeline.arrow import Decoder

MODEST = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
Read = Callable[[Any, Any, bytes], Any]


def by_codec(native: bool) -> Read:
    def read(writer: Any, reader: Any, frame: bytes) -> str:
        format = AvroFormat(native=native)
        codec = format.codec(*(format.parse(json.dumps(each)) for each in (writer, reader)))
        try:
            return repr(codec.decode(frame[5:]))
        except MessageError as error:  # a value beyond what Python has, such as a date
            return str(error)

    return read


def by_columns(writer: Any, reader: Any, frame: bytes) -> Any:
    decoder = Decoder(schema_text(reader), {1: schema_text(writer)}.__getitem__)
    decoded = decoder.decode(pa.array([frame], pa.binary()))
    assert decoded.rejections == {}
    return repr(decoded.values.to_pylist())


def by_fastavro(writer: Any, reader: Any, frame: bytes) -> Any:
    return repr(read_by_fastavro(writer, reader, frame[5:]))


@pytest.fixture(params=["native codec", "Python codec", "columns", "fastavro"])
def read(request: pytest.FixtureRequest) -> Read:
    if request.param == "native codec" and not BUILT:
        missing("The native codecs were not built: see what `pip install -v .` says.")
    readers = {
        "native codec": by_codec(True),
        "Python codec": by_codec(False),
        "columns": by_columns,
        "fastavro": by_fastavro,
    }
    return readers[request.param]


def lists_before(items: Any) -> dict[str, Any]:
    """Fields follow, so that a reader which goes on reading takes their bytes for items."""
    types = [{"type": "array", "items": items}, {"type": "map", "values": items}, "int", "int"]
    fields = [{"name": f"f{i}", "type": type} for i, type in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


@pytest.mark.parametrize("items", ["int", "null", "string", {"type": "array", "items": "int"}], ids=str)
@pytest.mark.parametrize("count", [0, 2])
def test_an_overlong_zero_ends_the_blocks(read: Read, items: Any, count: int) -> None:
    value = {"int": 1, "null": None, "string": "x"}.get(str(items), [7])
    schema = lists_before(items)
    row = {"f0": [value] * count, "f1": {f"k{i}": value for i in range(count)}, "f2": 0, "f3": 5}

    plain = read(schema, schema, written(schema, row, 1))

    for length in range(1, 10):
        frame = written(schema, row, 1, b"\x80" * length + b"\x00")
        assert read(schema, schema, frame) == plain


@pytest.mark.parametrize("items", ["int", "null", "string"])
def test_an_overlong_zero_ends_blocks_that_are_passed_over(read: Read, items: str) -> None:
    schema = lists_before(items)
    reader = {**schema, "fields": schema["fields"][2:]}
    value = {"int": 1, "null": None, "string": "x"}[items]
    row = {"f0": [value], "f1": {"k": value}, "f2": 0, "f3": 5}

    found = read(schema, reader, written(schema, row, 1, b"\x80\x00"))

    assert found == read(schema, reader, written(schema, row, 1))


@given(data=st.data())
@MODEST
def test_any_message_reads_the_same_with_overlong_ends(read: Read, data: st.DataObject) -> None:
    schema = data.draw(roots())
    row = data.draw(values(schema))
    end = b"\x80" * data.draw(st.integers(1, 9)) + b"\x00"
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "gone", "type": schema}]}
    none = {**outer, "fields": []}

    assert read(schema, schema, written(schema, row, 1, end)) == read(schema, schema, written(schema, row, 1))
    # A record's only field adds no bytes, so these are messages of the outer one too.
    assert read(outer, none, written(schema, row, 1, end)) == read(outer, none, written(schema, row, 1))
