"""Classes made from schemas that nobody wrote with classes in mind."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from dragoman.core.errors import ConstraintViolated, IncompatibleSchema, InvalidSchema
from dragoman.formats.avro import AvroFormat
from dragoman.schema.records import record

avro = AvroFormat()
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
UUID_TEXT = {"type": "string", "logicalType": "uuid"}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def class_of(type: Any, **field: Any) -> Any:
    return avro.record_class(avro.parse(schema({"name": "it", "type": type, **field})))


@pytest.mark.parametrize(
    ("type", "plain"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, "bytes"),
        ({"type": "long", "logicalType": "timestamp-seconds"}, "long"),
        ({"type": "int", "logicalType": "time-micros"}, "int"),
        ({"type": "int", "logicalType": 5}, "int"),
        ({"type": "string", "minimum": 5, "pattern": "("}, "string"),
    ],
    ids=str,
)
def test_what_a_parser_ignores_a_class_does_not_know_either(type: Any, plain: str) -> None:
    [field] = json.loads(avro.schema_of(class_of(type)))["fields"]
    assert field["type"] == plain


@pytest.mark.parametrize(
    ("type", "json", "value"),
    [
        ([COLOUR, "null"], None, None),
        (["bytes", "long"], 5, 5),
        (["null", {"type": "array", "items": "bytes"}], ["\u00ff"], [b"\xff"]),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ],
    ids=str,
)
def test_a_default_is_of_the_branch_that_it_fits(type: Any, json: Any, value: Any) -> None:
    assert class_of(type, default=json)().it == value


def test_a_symbol_as_default_becomes_the_member() -> None:
    assert class_of(["null", COLOUR], default="GREEN")().it.name == "GREEN"


def test_limits_compare_with_the_values_of_the_class() -> None:
    cls = class_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2, "minimum": "0.50"})
    codec = avro.codec(avro.parse(avro.schema_of(cls)), cls=cls)
    assert codec.decode(codec.encode(cls(Decimal("0.50")))).it == Decimal("0.50")
    with pytest.raises(ConstraintViolated):
        codec.encode(cls(Decimal("0.49")))


@pytest.mark.parametrize("type", [{**COLOUR, "symbols": ["mro"]}, {**COLOUR, "symbols": ["_x_"]}], ids=str)
def test_symbols_that_python_cannot_have_are_refused(type: Any) -> None:
    with pytest.raises(InvalidSchema, match="Colour"):
        class_of(type)


def test_types_that_nest_deeper_than_classes_can_are_refused() -> None:
    deep = '{"type": "array", "items": ' * 1_500 + '"int"' + "}" * 1_500
    text = f'{{"type": "record", "name": "R", "fields": [{{"name": "it", "type": {deep}}}]}}'
    with pytest.raises(InvalidSchema, match="deep"):
        avro.record_class(avro.parse(text))


@pytest.mark.parametrize(
    ("type", "default"),
    [(UUID_TEXT, ""), ({"type": "int", "logicalType": "date"}, 2**31 - 1)],
    ids=str,
)
def test_a_default_without_its_logical_type_stays_as_it_is_written(type: Any, default: Any) -> None:
    """The specification allows it, and an empty string for a UUID is not rare."""
    old, new = avro.parse(schema()), avro.parse(schema({"name": "it", "type": type, "default": default}))
    assert avro.codec(old, new).decode(b"") == {"it": default}
    assert avro.codec(new).encode({}) == avro.codec(new).encode({"it": default})
    assert avro.schema_of(avro.record_class(new))


def test_a_class_does_not_take_a_default_without_its_logical_type() -> None:
    @record(name="R")
    class Dated:
        it: date

    type = {"type": "int", "logicalType": "date"}
    new = avro.parse(schema({"name": "it", "type": type, "default": 2**31 - 1}))
    with pytest.raises(IncompatibleSchema, match="default"):
        avro.codec(avro.parse(schema()), new, Dated)
