"""Payloads: plain values and records, in and out, with older writers and with damage."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any
from uuid import UUID

import pytest

from dragoman.core.errors import (
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    InvalidSchema,
)
from dragoman.core.format import Policy
from dragoman.formats.thrift import Id, Kind, ThriftFormat
from dragoman.formats.thrift.classes import record_class
from dragoman.schema.markers import Aliases, Int, Unit, decimal, fixed, timestamp
from dragoman.schema.records import describe, record

FORMAT = ThriftFormat()
BINARY = '(dragoman.protocol = "binary")'


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    HIGH = 5
    LOW = -1


@record
class Card:
    number: str


@record(namespace="shop")
class Item:
    sku: str
    price: Annotated[Decimal, decimal(10, 2)]
    level: Level = Level.LOW


@record(namespace="shop", doc="What somebody\nbuys.")
class Order:
    id: int
    placed: datetime
    items: list[Item]
    color: Color
    tags: set[str]
    ok: bool
    note: str | None = None
    counts: dict[str, list[Int]] = field(default_factory=dict)
    day: date | None = None
    at: time = time(1, 2, 3)
    took: timedelta = timedelta(seconds=-1.5)
    key: UUID = UUID(int=5)
    small: Annotated[int, Id(50), Kind("i16")] = -3
    parent: Order | None = None
    paid: Card | str | bool | None = None
    raw: Annotated[bytes, fixed(3)] = b"abc"
    nanos: Annotated[int, timestamp(Unit.NANOS)] = 7


def order(**changes: Any) -> Order:
    usual: dict[str, Any] = {
        "id": 2**40, "placed": datetime(2024, 5, 6, 7, 8, 9, 10, UTC), "color": Color.BLUE,
        "tags": {"a", "b"}, "items": [Item("x", Decimal("12.50"), Level.HIGH)], "ok": False,
    }  # fmt: skip
    return Order(**(usual | changes))


def test_a_record_class_becomes_a_document_with_stable_ids() -> None:
    text = FORMAT.schema_of(Order)
    assert "// What somebody\n// buys.\nstruct Order {" in text
    for line in (
        "namespace * shop",
        "1: required i64 id",
        "3: required list<Item> items",
        "5: required set<string> tags",
        "7: optional string note",
        "8: map<string, list<i32>> counts",
        "50: i16 small",
        "13: optional Order parent",
        "union OrderPaid {",
        "1: Card as_card",
        "HIGH = 5",
        "LOW = -1",
    ):
        assert line in text
    assert FORMAT.parse(text).name == "shop.Order"


@pytest.mark.parametrize("protocol", ["", BINARY])
def test_records_survive_the_way_there_and_back(protocol: str) -> None:
    codec = FORMAT.codec(FORMAT.parse(FORMAT.schema_of(Order).rstrip() + protocol), cls=Order)
    for value in (
        order(),
        order(parent=order(note="", paid="cash"), paid=Card("1"), counts={"a": [-1, 2**31 - 1]}),
        order(items=[], tags=set(), at=time(0), took=timedelta(0), paid=False, day=date(1969, 12, 31)),
    ):
        assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("protocol", ["", BINARY])
def test_plain_values_are_dicts_with_python_types(protocol: str) -> None:
    schema = FORMAT.parse(
        """enum E { A = 1, B = 2 }
        union U { 1: string s; 2: list<E> es }
        struct P { 1: optional P next, 2: i8 b = 4 }
        struct R { 1: E e, 2: set<E> es, 3: map<E, list<U>> m, 4: uuid id, 5: P p, 6: list<set<bool>> x,
          7: set<P> ps, 20: bool t, 300: binary raw, 301: list<i32> defaults = [1, 2] } """
        + protocol
    )
    value = {
        "e": "B",
        "es": {"A", 7},
        "m": {"A": [{"s": "x"}, {"es": ["B"]}], 9: []},
        "id": UUID(int=1),
        "p": {"next": {"next": None, "b": -128}, "b": 127},
        "x": [{True}, {True, False}, set()],
        "ps": [{"next": None, "b": 1}],
        "t": True,
        "raw": b"\x00\xff",
        "defaults": [3],
    }
    codec = FORMAT.codec(schema)
    assert codec.decode(codec.encode(value)) == value
    empty = codec.decode(codec.encode({}))
    assert empty == dict.fromkeys(value) | {"defaults": [1, 2]}
    empty["defaults"].append(9)
    assert codec.decode(codec.encode({}))["defaults"] == [1, 2]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"id": "x"}, "id"),
        ({"id": 1.5}, "id"),
        ({"id": 2**31}, "id"),
        ({}, "id"),
        ({"id": 1, "missing": 1}, "missing"),
        ({"id": 1, "parts": [{"id": 1}, {"id": 1, "name": 5}]}, "parts[1].name"),
        ({"id": 1, "names": "abc"}, "names"),
        ({"id": 1, "choice": {}}, "choice"),
        ({"id": 1, "choice": {"a": 1, "b": 2}}, "choice"),
        ({"id": 1, "color": "BLACK"}, "color"),
        ({"id": 1, "ok": 1}, "ok"),
        ({"id": 1, "name": "\ud800"}, "name"),
        (5, None),
    ],
)
@pytest.mark.parametrize("protocol", ["", BINARY])
def test_values_that_do_not_fit_name_the_field(protocol: str, value: Any, place: str | None) -> None:
    schema = FORMAT.parse(
        """enum Color { RED } union Choice { 1: i32 a, 2: i32 b }
        struct A { 1: required i32 id, 2: list<A> parts, 3: list<string> names, 4: Choice choice,
          5: Color color, 6: bool ok, 7: string name } """
        + protocol
    )
    with pytest.raises(EncodeError) as caught:
        FORMAT.codec(schema).encode(value)
    assert caught.value.where.get("field") == place


@pytest.mark.parametrize("protocol", ["", BINARY])
def test_old_payloads_are_read_with_the_new_schema_and_the_other_way_round(protocol: str) -> None:
    old = FORMAT.parse(
        "struct P { 1: i32 x } struct A { 1: i32 x, 2: string gone, 3: map<string, list<P>> deep, 4: bool b,"
        f" 5: set<double> d, 6: uuid u, 7: P p, 8: i8 y }} {protocol}"
    )
    new = FORMAT.parse(f"struct A {{ 1: i32 x, 9: optional string added }} {protocol}")
    value = {
        "x": 5, "gone": "g", "deep": {"k": [{"x": 1}]}, "b": True, "d": {1.5}, "u": UUID(int=3),
        "p": {"x": 2}, "y": 1,
    }  # fmt: skip
    payload = FORMAT.codec(old).encode(value)
    assert FORMAT.codec(old, new).decode(payload) == {"x": 5, "added": None}
    back = FORMAT.codec(new, old).decode(FORMAT.codec(new).encode({"x": 6, "added": "a"}))
    assert back == dict.fromkeys(value) | {"x": 6}
    other = FORMAT.parse("struct A { 1: string x }")
    with pytest.raises(IncompatibleSchema):
        FORMAT.codec(old, other)


def test_a_class_takes_defaults_and_former_names_for_what_the_schema_lacks() -> None:
    @record
    class Wide:
        renamed: Annotated[int, Aliases("x")]
        extra: list[int] = field(default_factory=lambda: [1])

    schema = FORMAT.parse("struct Wide { 1: i64 x }")
    codec = FORMAT.codec(schema, cls=Wide)
    payload = FORMAT.codec(schema).encode({"x": 1})
    first, second = codec.decode(payload), codec.decode(payload)
    assert first == Wide(1, [1])
    assert first.extra is not second.extra
    with pytest.raises(DecodeError, match="'x'"):
        codec.decode(b"\x00")

    @record
    class Narrow:
        y: int

    @record
    class Other:
        x: str

    for cls in (Narrow, Other):
        with pytest.raises(IncompatibleSchema):
            FORMAT.codec(schema, cls=cls)


COMPACT_HOSTILE = [
    b"",
    b"\x15",
    b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
    b"\x15\xfe\xff\xff\xff\xff\x01\x00",
    b"\x28\xff\xff\xff\xff\x07a\x00",
    b"\x39\xf5\xff\xff\xff\xff\x07\x00",
    b"\x39\x18\x01a\x00",
    b"\x3f\x00",
    b"\x15\x02\x00\x00",
    b"\x4c" * 5000,
    b"\x5c" * 5000,
    b"\x59" + b"\x19" * 5000,
    b"\x28\x01\xff\x00",
]
BINARY_HOSTILE = [
    b"",
    b"\x08\x00\x01",
    b"\x0b\x00\x02\x7f\xff\xff\xffa\x00",
    b"\x0b\x00\x02\xff\xff\xff\xffa\x00",
    b"\x0f\x00\x03\x08\x7f\xff\xff\xff\x00",
    b"\x0f\x00\x03\x0b\x00\x00\x00\x01\x00\x00\x00\x00\x00",
    b"\x63\x00\x03\x00",
    b"\x0c\x00\x04" * 5000,
    b"\x0c\x00\x05" * 5000,
    b"\x0f\x00\x05" + b"\x0f\x00\x00\x00\x01" * 5000,
    b"\x0b\x00\x02\x00\x00\x00\x01\xff\x00",
]


@pytest.mark.parametrize(
    ("protocol", "payload"),
    [("", each) for each in COMPACT_HOSTILE] + [(BINARY, each) for each in BINARY_HOSTILE],
)
def test_hostile_bytes_stay_message_errors(protocol: str, payload: bytes) -> None:
    schema = FORMAT.parse(
        f"struct A {{ 1: i32 x, 2: string s, 3: list<i32> l, 4: optional A a }} {protocol}",
    )
    with pytest.raises(DecodeError):
        FORMAT.codec(schema).decode(payload)


def test_classes_that_thrift_cannot_hold_are_refused_with_the_field() -> None:
    @record
    class Parts:
        x: list[int | None]

    @record
    class Twins:
        x: Int | Annotated[int, timestamp()]

    for cls in (Parts, Twins):
        with pytest.raises(InvalidSchema) as caught:
            FORMAT.schema_of(cls)
        assert caught.value.where["field"] == "x"


def test_keys_that_no_dict_can_have_are_refused_by_the_codec_alone() -> None:
    schema = FORMAT.parse("struct A { 1: map<list<i32>, i32> m }")
    with pytest.raises(IncompatibleSchema, match="'m'"):
        FORMAT.codec(schema)


def test_a_contract_becomes_a_class_and_the_class_the_same_root() -> None:
    schema = FORMAT.parse(
        """namespace * shop
        enum Color { RED = 1, BLUE = 3 }
        struct Item { 1: required string sku, 4: optional i16 n }
        union OrderPaid { 1: Item as_item, 2: string as_string }
        struct Order { 1: required i64 id, 3: optional string from, 4: required list<Item> items,
          7: optional map<string, set<i32>> counts, 8: required Color color, 9: optional Order parent,
          10: optional OrderPaid paid, 11: optional uuid key }"""
    )
    cls: Any = record_class(schema)
    again = FORMAT.parse(FORMAT.schema_of(cls))
    assert FORMAT.incompatibilities(schema, again, Policy.EXACT) == ()
    assert FORMAT.incompatibilities(again, schema, Policy.EXACT) == ()
    codec = FORMAT.codec(schema, cls=cls)
    made = cls(id=1, items=[], color=codec_color(cls), from_="x", paid="cash", counts={"a": {1}})
    assert codec.decode(codec.encode(made)) == made


def codec_color(cls: Any) -> Any:
    """The enum that came with the class."""
    color = next(each.type for each in describe(cls).fields if each.name == "color")
    return color.cls.BLUE
