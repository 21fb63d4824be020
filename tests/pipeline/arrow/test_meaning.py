"""Which schemas read every message alike, so that a stream may go on with either."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.pipeline.arrow import SchemaText
from dragoman.pipeline.arrow.formats import column_format


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "test.R", "fields": list(fields)} | more


def field(type: Any, **more: Any) -> dict[str, Any]:
    return record({"name": "a", "type": type} | more)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9}
ENUM = {"type": "enum", "name": "E", "symbols": ["P", "Q"]}
UNION = ["null", "int", "double"]

AVRO_DIFFERENT = [
    (field("int"), field("int", default=0)),
    (field("int", default=0), field("int", default=1)),
    (field("int"), field("int", aliases=["b"])),
    (field("int", aliases=["b", "c"]), field("int", aliases=["c", "b"])),
    (field("int"), record({"name": "a", "type": "int"}, aliases=["test.Old"])),
    (field("int"), field({"type": "int", "maximum": 5})),
    (field({"type": "int", "maximum": 5}), field({"type": "int", "maximum": 50})),
    (field({"type": "string", "pattern": "a"}), field({"type": "string", "pattern": "b"})),
    (field({"type": "array", "items": "int"}), field({"type": "array", "items": "int", "maxItems": 2})),
    (field("long"), field({"type": "long", "logicalType": "timestamp-millis"})),
    (field(DECIMAL | {"scale": 2}), field(DECIMAL | {"scale": 3})),
    (field(["null", "int", DECIMAL | {"scale": 2}]), field(["null", "int", DECIMAL | {"scale": 3}])),
    (field(ENUM), field(ENUM | {"default": "P"})),
    (field(ENUM), field(ENUM | {"aliases": ["F"]})),
    (field(UNION[1:], default=0), field(UNION[1:], default=0.0)),
    (field(UNION), field([UNION[0], UNION[2], UNION[1]])),
]
AVRO_SAME = [
    (field("int"), field("int", doc="A number.")),
    (field("int"), field({"type": "int"})),
    (field("int"), record({"name": "a", "type": "int"}, doc="A record.")),
    (field("int"), {"type": "record", "name": "R", "namespace": "test", "fields": field("int")["fields"]}),
    (field("int"), field({"type": "int", "unit": "EUR"})),
]


def meaning(text: Any, type: str = "AVRO") -> object:
    return column_format(type).meaning(SchemaText(type, text if isinstance(text, str) else json.dumps(text)))


@pytest.mark.parametrize(("one", "other"), AVRO_DIFFERENT)
def test_what_avro_reading_needs_is_another_meaning(one: Any, other: Any) -> None:
    assert meaning(one) != meaning(other)


@pytest.mark.parametrize(("one", "other"), AVRO_SAME)
def test_what_avro_reading_does_not_need_is_no_other_meaning(one: Any, other: Any) -> None:
    assert meaning(one) == meaning(other)


def test_types_of_other_avro_schemas_count() -> None:
    def referring(inner: Any) -> SchemaText:
        return SchemaText(
            "AVRO", json.dumps(field("test.E")), (("test.E", SchemaText("AVRO", json.dumps(inner))),)
        )

    enum = ENUM | {"namespace": "test"}
    format = column_format("AVRO")
    assert format.meaning(referring(enum)) == format.meaning(referring(enum | {"doc": "Letters."}))
    assert format.meaning(referring(enum)) != format.meaning(referring(enum | {"default": "P"}))


def property(**keywords: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": {"type": "integer"} | keywords}})


OTHERS_DIFFERENT = [
    ("JSON", property(), property(maximum=5)),
    ("JSON", property(default=1), property(default=2)),
    (
        "PROTOBUF",
        *(f'syntax = "proto2"; message M {{ optional int32 a = 1 [default = {n}]; }}' for n in (1, 2)),
    ),
    ("THRIFT", *(f"struct S {{ 1: optional i32 a = {n} }}" for n in (1, 2))),
]


@pytest.mark.parametrize(("type", "one", "other"), OTHERS_DIFFERENT)
def test_defaults_and_constraints_of_other_formats_count(type: str, one: str, other: str) -> None:
    assert meaning(one, type) == meaning(one, type)
    assert meaning(one, type) != meaning(other, type)
