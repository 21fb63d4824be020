from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.json.shop import Card, Checked, Order, Payment, Person, Point, Voucher, an_order

from dragoman.core.errors import ConstraintViolated, DecodeError, EncodeError, InvalidSchema
from dragoman.core.format import Policy
from dragoman.formats.json import JsonFormat
from dragoman.formats.json.description import describe_schema
from dragoman.formats.json.schema_of import schema_text
from dragoman.schema.markers import Duration
from dragoman.schema.records import record

FORMAT = JsonFormat()
ORDER = FORMAT.parse(FORMAT.schema_of(Order))
CODEC = FORMAT.codec(ORDER, None, Order)


def test_a_record_comes_back_equal() -> None:
    order = an_order()
    assert CODEC.decode(CODEC.encode(order)) == order
    nested = replace(order, parent=order, by=Card("12345"), amount="much", note="n")
    assert CODEC.decode(CODEC.encode(nested)) == nested


def test_values_are_written_as_documented() -> None:
    document = json.loads(CODEC.encode(an_order()))
    expected = {
        "price": "19.90",
        "placed": "2026-01-02T03:04:05.678901Z",
        "wanted": "2026-01-02T03:04:05.678",
        "day": "2026-01-02",
        "clock": "03:04:05.000006",
        "took": "P0M1DT0.0015S",
        "lasts": "P1M2DT0.003S",
        "key": "00000000-0000-0000-0000-000000000007",
        "seen": 2**62,
        "payment": "CASH",
        "digest": "AAEC/w==",
        "marks": [1, 2, 3],
        "by": {"code": "x", "until": "2026-01-03"},
        "parent": None,
    }
    assert {name: document[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"price": Decimal("0.001")}, "price"),
        ({"price": Decimal("NaN")}, "price"),
        ({"price": 1.5}, "price"),
        ({"placed": datetime.datetime(2026, 1, 1)}, "placed"),
        ({"digest": b"123"}, "digest"),
        ({"payment": "CASH"}, "payment"),
        ({"took": datetime.timedelta(days=-1)}, "took"),
        ({"by": Decimal(1)}, "by"),
        ({"parent": 1}, "parent"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_field(change: dict[str, Any], name: str) -> None:
    with pytest.raises(EncodeError) as caught:
        CODEC.encode(replace(an_order(), **change))
    assert caught.value.where["field"] == name


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0},
        {"share": 1.0},
        {"price": Decimal("0.00")},
        {"day": datetime.date(1999, 12, 31)},
        {"tags": ["x"] * 6},
        {"by": Card("1")},
        {"picture": b"x" * 101},
    ],
)
def test_a_constraint_is_held_in_both_directions(change: dict[str, Any]) -> None:
    with pytest.raises((ConstraintViolated, EncodeError)):
        CODEC.encode(replace(an_order(), **change))


def test_constraints_that_json_schema_cannot_say_are_checked_when_reading() -> None:
    payload = CODEC.encode(an_order()).replace(b'"19.90"', b'"0.00"')
    with pytest.raises(ConstraintViolated) as caught:
        CODEC.decode(payload)
    assert caught.value.where["field"] == "price"


def test_a_class_that_refuses_its_values_violates_a_constraint() -> None:
    checked = FORMAT.codec(FORMAT.parse(FORMAT.schema_of(Checked)), None, Checked)
    assert checked.decode(b'{"low":1,"high":2}') == Checked(1, 2)
    with pytest.raises(ConstraintViolated):
        checked.decode(b'{"low":3,"high":2}')


@pytest.mark.parametrize(
    ("cls", "instance"), [(Point, Point(1, 2)), (Person, Person(name="a", age=3)), (Person, Person(name="b"))]
)
def test_structs_and_models_are_records_too(cls: type, instance: Any) -> None:
    schema = FORMAT.parse(FORMAT.schema_of(cls))
    codec = FORMAT.codec(schema, None, cls)
    assert codec.decode(codec.encode(instance)) == instance


def test_a_class_may_lag_behind_or_run_ahead_of_the_schema() -> None:
    wide = FORMAT.parse('{"properties":{"x":{"type":"integer"},"z":{"type":"string"}}}')
    codec = FORMAT.codec(wide, None, Point)
    assert codec.decode(b'{"x":1,"z":"more"}') == Point(1, 0)
    with pytest.raises(DecodeError) as caught:
        codec.decode(b'{"z":"more"}')
    assert caught.value.where["field"] == "x"


def test_an_unknown_symbol_becomes_the_fallback() -> None:
    free = FORMAT.parse("{}")
    document = json.loads(CODEC.encode(an_order()))
    document["payments"] = "BARTER"
    assert FORMAT.codec(free, None, Order).decode(json.dumps(document).encode()).payments is Payment.CASH


def test_a_former_name_of_a_field_is_still_read() -> None:
    document = json.loads(CODEC.encode(an_order()))
    document["remark"] = "was here"
    del document["note"]
    order = FORMAT.codec(FORMAT.parse("{}"), None, Order).decode(json.dumps(document).encode())
    assert order.note == "was here"


def test_the_schema_of_a_class_says_what_the_class_says() -> None:
    schema = json.loads(FORMAT.schema_of(Order))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["title"] == "shop.Order"
    assert schema["description"] == "What somebody wants."
    assert schema["additionalProperties"] is False
    assert "parent" not in schema["required"]
    properties = schema["properties"]
    assert properties["count"] == {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
    assert properties["share"] == {
        "type": "number",
        "minimum": 0,
        "exclusiveMaximum": 1,
        "description": "Of the whole.",
    }
    assert properties["parent"] == {"anyOf": [{"type": "null"}, {"$ref": "#"}], "default": None}
    assert properties["payments"]["allOf"] == [{"$ref": "#/definitions/shop.Payment"}]
    assert schema["definitions"]["shop.Payment"]["enum"] == ["CASH", "CARD"]
    assert schema["definitions"]["shop.Card"]["properties"]["number"] == {
        "type": "string",
        "minLength": 4,
        "maxLength": 16,
        "pattern": "^[0-9]+$",
    }


def test_the_validator_of_confluents_python_client_agrees() -> None:
    validator = jsonschema.Draft7Validator(json.loads(FORMAT.schema_of(Order)))
    jsonschema.Draft7Validator.check_schema(validator.schema)
    document = json.loads(CODEC.encode(an_order()))
    assert validator.is_valid(document)
    assert not validator.is_valid({**document, "price": "much"})


@pytest.mark.parametrize("cls", [Order, Card, Voucher, Checked, Point, Person])
def test_from_class_to_schema_to_description_and_back_is_the_same_schema(cls: type) -> None:
    text = FORMAT.schema_of(cls)
    assert schema_text(describe_schema(FORMAT.parse(text))) == text


def test_adding_an_optional_field_to_a_class_is_compatible_and_removing_one_is_not() -> None:
    @record(name="Trade")
    class Before:
        id: int

    @record(name="Trade")
    class After:
        id: int
        note: str | None = None
        lots: list[int] = field(default_factory=list)

    old, new = FORMAT.parse(FORMAT.schema_of(Before)), FORMAT.parse(FORMAT.schema_of(After))
    for policy in Policy:
        assert not FORMAT.incompatibilities(new, old, policy)
    assert [reason.rule for reason in FORMAT.incompatibilities(old, new)] == [
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    ] * 2
    read = FORMAT.codec(old, new, After).decode(b'{"id":1}')
    assert read == After(1, None, [])


@dataclass
class Unclear:
    value: str | bytes


@dataclass
class Twins:
    value: Point | Point2


@dataclass
class Point2:
    x: int
    y: int


@pytest.mark.parametrize("cls", [Unclear, Twins])
def test_a_union_that_json_cannot_tell_apart_is_refused(cls: type) -> None:
    with pytest.raises(InvalidSchema, match="cannot be told apart"):
        FORMAT.schema_of(cls)


def test_a_foreign_schema_becomes_a_description() -> None:
    text = """{"title": "An order!", "type": "object", "required": ["order-id"],
      "properties": {
        "order-id": {"type": "integer"},
        "class": {"enum": ["NEW", "OLD", null]},
        "when": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "extra": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        "up": {"$ref": "#"}},
      "definitions": {"line": {"allOf": [
        {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
        {"type": "object", "properties": {"count": {"type": "integer", "default": 1}}}]}}}"""
    described = describe_schema(FORMAT.parse(text))
    assert described.names.name == "AnOrder"
    fields = {each.name: each for each in described.fields}
    assert fields["order-id"].attribute == "order_id"
    assert fields["class"].attribute == "class_"
    assert fields["up"].type.branches[1] is described  # type: ignore[union-attr]
    again = FORMAT.parse(schema_text(described))
    document = {"order-id": 1, "class": "NEW", "when": "2026-01-01T00:00:00Z", "lines": [{"sku": "a"}]}
    assert again.validator.is_valid(document)
    assert not again.validator.is_valid({**document, "lines": [{"count": 1}]})


@pytest.mark.parametrize("schema", ['{"$ref": "#"}', '{"type": "array", "items": {"$ref": "#"}}'])
def test_a_schema_of_itself_alone_has_no_class(schema: str) -> None:
    with pytest.raises(InvalidSchema):
        describe_schema(FORMAT.parse(schema))


@pytest.mark.parametrize(
    "schema", ['{"type":"object","properties":{"a":{}}}', '{"properties":{"a":{"not":{"type":"string"}}}}']
)
def test_what_no_class_can_hold_is_refused_with_its_place(schema: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        describe_schema(FORMAT.parse(schema))
    assert caught.value.where["pointer"] == "/properties/a"


moments = st.datetimes(
    min_value=datetime.datetime(1, 1, 2),
    max_value=datetime.datetime(9999, 12, 30),
    timezones=st.just(datetime.UTC),
)
orders = st.builds(
    lambda **changes: replace(an_order(), **changes),
    price=st.decimals(min_value=Decimal("0.01"), max_value=Decimal("99999999.99"), places=2),
    placed=moments,
    day=st.dates(min_value=datetime.date(2000, 1, 1)),
    clock=st.times(),
    took=st.timedeltas(min_value=datetime.timedelta(0)),
    lasts=st.builds(Duration, *[st.integers(0, 2**32 - 1)] * 3),
    key=st.uuids(),
    picture=st.binary(max_size=100),
    prices=st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    by=st.one_of(st.none(), st.builds(Voucher, st.text(), st.dates())),
    amount=st.one_of(st.integers(-(2**63), 2**63 - 1), st.text()),
)


@settings(max_examples=100, deadline=None)
@given(orders)
def test_any_order_comes_back_equal(order: Order) -> None:
    assert CODEC.decode(CODEC.encode(order)) == order


def test_none_is_left_out_where_the_schema_knows_no_null() -> None:
    foreign = FORMAT.parse(
        '{"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}'
    )
    codec = FORMAT.codec(foreign, None, Person)
    assert codec.encode(Person(name="a")) == b'{"name":"a"}'
    assert codec.decode(b'{"name":"a"}') == Person(name="a")
