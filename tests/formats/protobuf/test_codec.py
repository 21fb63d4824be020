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
from dragoman.formats.protobuf import Kind, Oneof, ProtobufFormat, Tag
from dragoman.formats.protobuf.classes import record_class
from dragoman.schema.markers import Int, Unit, decimal, fixed, timestamp
from dragoman.schema.records import record

FORMAT = ProtobufFormat()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    HIGH = 5
    LOW = 0


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
    note: str | None = None
    counts: dict[str, Int] = field(default_factory=dict)
    day: date | None = None
    at: time = time(1, 2, 3)
    took: timedelta = timedelta(seconds=-1.5)
    key: UUID = UUID(int=5)
    delta: Annotated[int, Tag(50), Kind("sint64")] = -3
    parent: Order | None = None
    paid: Card | str | None = None
    local: Annotated[datetime, timestamp(local=True)] = datetime(2020, 1, 1)
    raw: Annotated[bytes, fixed(3)] = b"abc"
    nanos: Annotated[int, timestamp(Unit.NANOS)] = 7


def order(**changes: Any) -> Order:
    usual: dict[str, Any] = {
        "id": 2**40, "placed": datetime(2024, 5, 6, 7, 8, 9, 10, UTC), "color": Color.BLUE,
        "tags": {"a", "b"}, "items": [Item("x", Decimal("12.50"), Level.HIGH)],
    }  # fmt: skip
    return Order(**(usual | changes))


def test_a_record_class_becomes_a_file_with_stable_numbers() -> None:
    text = FORMAT.schema_of(Order)
    assert "// What somebody\n// buys.\nmessage Order {" in text
    for line in (
        "package shop;",
        "int64 id = 1;",
        "google.protobuf.Timestamp placed = 2;",
        "repeated Item items = 3;",
        "optional string note = 6;",
        "map<string, int32> counts = 7;",
        "sint64 delta = 50;",
        "Order parent = 12;",
        "oneof paid {",
        "Card paid_card = 13;",
        "LOW = 0;",
        "HIGH = 5;",
    ):
        assert line in text
    assert FORMAT.parse(text).name == "shop.Order"


def test_records_survive_the_way_there_and_back() -> None:
    codec = FORMAT.codec(FORMAT.parse(FORMAT.schema_of(Order)), cls=Order)
    for value in (
        order(),
        order(parent=order(note="", paid="cash"), paid=Card("1"), counts={"a": -1}, day=date(1970, 1, 1)),
        order(items=[], tags=set(), at=time(0), took=timedelta(0), delta=0),
    ):
        assert codec.decode(codec.encode(value)) == value


def test_plain_values_are_dicts_with_python_types() -> None:
    schema = FORMAT.parse(
        """syntax = "proto3";
        import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
        import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
        import "confluent/type/decimal.proto";
        message A {
          google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2;
          google.protobuf.Int32Value size = 3; google.protobuf.Struct extra = 4;
          repeated google.protobuf.Value any = 5; confluent.type.Decimal price = 6;
          map<string, google.protobuf.Struct> more = 7; E e = 8; repeated E es = 9; optional string from = 10;
        }
        enum E { NONE = 0; SOME = 1; }"""
    )
    value = {
        "at": datetime(1969, 12, 31, 23, 59, 59, 5, UTC),
        "took": timedelta(seconds=-2, microseconds=7),
        "size": 0,
        "extra": {"a": [1.0, None, {"b": True}], "c": "d"},
        "any": [None, 1.5, "x", [1.0], {"k": False}, {}, []],
        "price": Decimal("-12.340"),
        "more": {"x": {"y": 1.0}},
        "e": "SOME",
        "es": ["SOME", 7, "NONE"],
        "from": "here",
    }
    codec = FORMAT.codec(schema)
    assert codec.decode(codec.encode(value)) == value
    empty = codec.decode(b"\x00")
    assert empty == dict.fromkeys(value) | {"any": [], "more": {}, "e": "NONE", "es": []}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"id": "x"}, "id"),
        ({"id": 1.5}, "id"),
        ({"id": 2**31}, "id"),
        ({"missing": 1}, "missing"),
        ({"parts": [{"id": 1}, {"id": "x"}]}, "parts[1].id"),
        ({"by": {"k": {"names": 5}}}, "by['k'].names"),
        ({"names": "abc"}, "names"),
        ({"a": 1, "b": 2}, None),
        ({"name": "\ud800"}, "name"),
        ({"ratio": 1e300}, "ratio"),
        (5, None),
        (None, None),
    ],
)
def test_values_that_do_not_fit_name_the_field(value: Any, place: str | None) -> None:
    schema = FORMAT.parse(
        """syntax = "proto3"; message A { int32 id = 1; repeated A parts = 2; map<string, A> by = 3;
        repeated string names = 4; oneof c { int32 a = 5; int32 b = 6; } string name = 7;
        float ratio = 8; }"""
    )
    with pytest.raises(EncodeError) as caught:
        FORMAT.codec(schema).encode(value)
    assert caught.value.where.get("field") == place


def test_a_payload_says_which_message_it_holds() -> None:
    schema = FORMAT.parse(
        'syntax = "proto3"; message A { int32 x = 1; message C { int32 y = 1; } } message B { int32 z = 1; }'
    )
    codec = FORMAT.codec(schema)
    assert codec.encode({"x": 1}) == b"\x00\x08\x01"
    assert codec.decode(b"\x02\x00\x08\x01") == {"x": 1}
    assert codec.decode(b"\x02\x02\x08\x01") == {"z": 1}
    assert codec.decode(b"\x04\x00\x00\x08\x01") == {"y": 1}

    @record
    class B:
        z: Int

    second = FORMAT.codec(schema, cls=B)
    assert second.encode(B(1)) == b"\x02\x02\x08\x01"
    assert second.decode(b"\x02\x02\x08\x01") == B(1)
    for wrong in (
        b"",
        b"\x02\x08\x08\x01",
        b"\x01\x00",
        b"\x80",
        b"\xff" * 12,
        b"\x80\x80\x80\x80\x80\x80\x01",
        b"\xfe\x0f",
    ):
        with pytest.raises(DecodeError):
            codec.decode(wrong)
    with pytest.raises(DecodeError, match="holds a A"):
        second.decode(b"\x00\x08\x01")


def test_old_payloads_are_read_with_the_new_schema_and_the_other_way_round() -> None:
    old = FORMAT.parse('syntax = "proto3"; message A { int32 x = 1; string gone = 2; }')
    new = FORMAT.parse('syntax = "proto3"; message A { int64 renamed = 1; optional string added = 3; }')
    payload = FORMAT.codec(old).encode({"x": 5, "gone": "g"})
    assert FORMAT.codec(old, new).decode(payload) == {"renamed": 5, "added": None}
    assert FORMAT.codec(new, old).decode(FORMAT.codec(new).encode({"renamed": 6})) == {"x": 6, "gone": ""}
    other = FORMAT.parse('syntax = "proto3"; message A { A x = 1; }')
    with pytest.raises(IncompatibleSchema):
        FORMAT.codec(old, other)


def test_a_class_takes_defaults_and_former_names_for_what_the_schema_lacks() -> None:
    @record
    class Wide:
        x: int
        extra: list[int] = field(default_factory=lambda: [1])

    schema = FORMAT.parse('syntax = "proto3"; message Wide { int64 x = 1; }')
    codec = FORMAT.codec(schema, cls=Wide)
    first, second = codec.decode(b"\x00\x08\x01"), codec.decode(b"\x00\x08\x01")
    assert first == Wide(1, [1])
    assert first.extra is not second.extra

    @record
    class Narrow:
        y: int

    with pytest.raises(IncompatibleSchema, match="'y'"):
        FORMAT.codec(schema, cls=Narrow)

    @record
    class Other:
        x: str

    with pytest.raises(IncompatibleSchema, match="'x'"):
        FORMAT.codec(schema, cls=Other)


@pytest.mark.parametrize(
    "change", [{"at": time(1, tzinfo=UTC)}, {"local": datetime(2026, 1, 1, tzinfo=UTC)}], ids=str
)
def test_a_time_zone_that_would_be_lost_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EncodeError) as caught:
        FORMAT.codec(FORMAT.parse(FORMAT.schema_of(Order)), cls=Order).encode(order(**change))
    assert caught.value.where["field"] in change


def test_proto2_requires_and_has_defaults() -> None:
    schema = FORMAT.parse(
        "message A { required int32 x = 1; optional int32 y = 2 [default = 5]; optional A a = 3; }"
    )
    codec = FORMAT.codec(schema)
    assert codec.decode(codec.encode({"x": 1})) == {"x": 1, "y": 5, "a": None}
    with pytest.raises(DecodeError, match="requires"):
        codec.decode(b"\x00\x10\x01")
    with pytest.raises(EncodeError) as caught:
        codec.encode({"y": 1})
    assert caught.value.where["field"] == "x"


def test_hostile_bytes_stay_message_errors() -> None:
    schema = FORMAT.parse(
        """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "confluent/type/decimal.proto";
        message A { A a = 1; google.protobuf.Timestamp t = 2; confluent.type.Decimal d = 3; string s = 4; }"""
    )
    codec = FORMAT.codec(schema)
    deep = b""
    for _ in range(200):
        deep = b"\x0a" + varint(len(deep)) + deep
    far = b"\x08" + varint(2**62)
    scale = b"\x0a\x01\x05\x18" + varint(2**31 - 1)
    for payload in (
        deep,
        b"\x12" + varint(len(far)) + far,
        b"\x12\x06\x10" + varint(2**31 - 1),
        b"\x1a" + varint(len(scale)) + scale,
        b"\x22\x01\xff",
    ):
        with pytest.raises(DecodeError):
            codec.decode(b"\x00" + payload)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def test_classes_that_protobuf_cannot_hold_are_refused_with_the_field() -> None:
    @record
    class Lists:
        x: list[list[int]]

    @record
    class Maybe:
        x: list[int] | None

    @record
    class Twins:
        x: Int | Annotated[int, timestamp()]

    for cls in (Lists, Maybe, Twins):
        with pytest.raises(InvalidSchema) as caught:
            FORMAT.schema_of(cls)
        assert caught.value.where["field"] == "x"


def test_a_contract_becomes_a_class_and_the_class_the_same_contract() -> None:
    schema = FORMAT.parse(
        """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
        message Order {
          message Line { string sku = 1; sint32 n = 7; enum K { A = 0; B = 5; } K k = 2; }
          int64 id = 1; optional string note = 3; repeated Line lines = 4; map<string, Line> by = 5;
          google.protobuf.Timestamp at = 6; oneof pay { string card = 10; fixed64 cash = 11; }
          Order parent = 12; Color color = 20; float from = 21; Item item = 26; }
        enum Color { RED = 0; BLUE = 3; }
        message Item { double d = 1; int32 i = 2; }"""
    )
    cls: Any = record_class(schema)
    assert FORMAT.parse(FORMAT.schema_of(cls)).fingerprint == schema.fingerprint
    codec = FORMAT.codec(schema, cls=cls)
    made = cls(id=1, note="", from_=1.5, cash=7, at=datetime(2024, 1, 1, tzinfo=UTC))
    assert codec.decode(codec.encode(made)) == made


def test_oneofs_and_kinds_can_be_written_out() -> None:
    @record
    class Choice:
        a: Annotated[str | None, Oneof("which"), Tag(4)] = None
        b: Annotated[int | None, Oneof("which"), Tag(9), Kind("fixed64")] = None
        c: list[Annotated[int, Kind("uint32")]] = field(default_factory=list)

    schema = FORMAT.parse(FORMAT.schema_of(Choice))
    which = "oneof which { string a = 4; fixed64 b = 9; }"
    same = f'syntax = "proto3"; message Choice {{ {which} repeated uint32 c = 1; }}'
    assert schema.fingerprint == FORMAT.parse(same).fingerprint
    codec = FORMAT.codec(schema, cls=Choice)
    assert codec.decode(codec.encode(Choice(b=0, c=[7]))) == Choice(b=0, c=[7])
