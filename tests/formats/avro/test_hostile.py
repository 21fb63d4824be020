"""Bytes that want to do harm: each is refused, at once and in words."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.format import Codec
from dragoman.formats.avro import AvroFormat

pytestmark = pytest.mark.usefixtures("both_ways")
avro = AvroFormat()

HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
"""The largest long, as a length or a count."""


def codec(schema: Any, reader: Any = None) -> Codec:
    return avro.codec(avro.parse(json.dumps(schema)), avro.parse(json.dumps(reader)) if reader else None)


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


EMPTY = {"type": "record", "name": "Empty", "fields": []}
FIXED = {"type": "fixed", "name": "F", "size": 4}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
ENDLESS = {"type": "record", "name": "Endless", "fields": [{"name": "again", "type": "Endless"}]}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("int", b""),
        ("int", b"\x80"),
        ("int", b"\x80\x80\x80\x80\x10"),
        ("long", b"\x80" * 9 + b"\x02"),
        ("long", b"\x80" * 1_000_000),
        ("boolean", b"\x02"),
        ("double", b"1234567"),
        ("string", HUGE),
        ("string", b"\x01"),
        ("string", b"\x04a"),
        ("string", b"\x02\xff"),
        ("bytes", HUGE),
        (FIXED, b"123"),
        (ENUM, b"\x04"),
        (ENUM, b"\x01"),
        (["null", "int"], b"\x04"),
        (["null", "int"], b"\x01"),
        (array("int"), HUGE),
        (array("int"), b"\x04\x00"),
        (array("int"), b"\x03" + HUGE),
        (array(FIXED), HUGE),
        (array("null"), HUGE),
        (array(EMPTY), HUGE),
        (array(array("null")), b"\x02" + HUGE),
        ({"type": "map", "values": "null"}, HUGE),
        (array(ENDLESS), b"\x02"),
        (ENDLESS, b""),
        (DECIMAL, b"\x06\x7f\xff\xff"),
        (DECIMAL, b"\x80\x80\x40" + b"\x01" * 0x80000),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "long", "logicalType": "timestamp-micros"}, HUGE),
        ({"type": "long", "logicalType": "timestamp-millis"}, HUGE),
        ({"type": "long", "logicalType": "time-micros"}, HUGE),
        ({"type": "string", "logicalType": "uuid"}, b"\x02x"),
        ("int", b"\x02\x02"),
    ],
    ids=str,
)
def test_it_is_refused_and_harmless_when_passed_over(schema: Any, data: bytes) -> None:
    with pytest.raises(DecodeError):
        codec(schema).decode(data)
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "gone", "type": schema}]}
    with pytest.raises(DecodeError):
        codec(outer).decode(data)
    # What is passed over is not looked at closely, but it must not do harm either.
    with contextlib.suppress(DecodeError):
        codec(outer, {"type": "record", "name": "Outer", "fields": []}).decode(data)


def test_many_small_arrays_of_nothing_share_one_limit() -> None:
    many = b"\x80\x80\x04" + b"\xfe\xff\x03\x00" * 0x8000 + b"\x00"
    with pytest.raises(DecodeError, match="without bytes"):
        codec(array(array("null"))).decode(many)
    assert codec(array("null")).decode(b"\x80\x08\x00") == [None] * 512


def test_an_error_says_which_field_it_was() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "name", "type": "string"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "list", "type": array(inner)}]}
    with pytest.raises(DecodeError) as caught:
        codec(schema).decode(b"\x02\x02\xff\x00")
    assert caught.value.where == {"field": "list[].name", "record": "R"}
    with pytest.raises(DecodeError) as caught:
        codec(schema).decode(b"\x02\x04a")
    assert caught.value.code == "message.decode.truncated"
    with pytest.raises(DecodeError) as caught:
        codec(schema).decode(b"\x00\x00")
    assert caught.value.code == "message.decode.trailing"
    with pytest.raises(EncodeError) as encoding:
        codec(schema).encode({"list": [{}]})
    assert encoding.value.what == "list[].name is missing."


def test_blocks_with_sizes_are_read() -> None:
    blocks = codec(array("int"))
    assert blocks.decode(b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]


def test_a_number_may_be_written_longer_than_needed() -> None:
    assert codec("long").decode(b"\x82\x00") == 1
    assert codec("string").decode(b"\x82\x00a") == "a"
