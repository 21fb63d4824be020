"""Codecs of classes: values go straight from and to instances."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import fastavro
import msgspec
import pydantic
import pytest

from dragoman.core.errors import (
    ConstraintViolated,
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    InvalidSchema,
)
from dragoman.core.format import Codec
from dragoman.formats.avro import AvroFormat
from dragoman.schema.markers import (
    Aliases,
    Duration,
    Fallback,
    Float,
    Int,
    Length,
    LocalTimestampMillis,
    LocalTimestampNanos,
    Max,
    Min,
    Pattern,
    TimeMillis,
    TimestampMillis,
    TimestampNanos,
    Unit,
    decimal,
    fixed,
    timestamp,
    uuid,
)
from dragoman.schema.records import named, record

pytestmark = pytest.mark.usefixtures("both_ways")
avro = AvroFormat()


class Colour(Enum):
    RED = 1
    GREEN = 2


@record(namespace="test")
class Point:
    x: Int
    y: Int = 0


@record
class Node:
    value: int
    children: list[Node]
    parent: Node | None = None


@record(namespace="test", doc="All there is.")
class Everything:
    flag: bool
    small: Int
    whole: int
    half: Float
    real: float
    text: str
    raw: bytes
    day: date
    clock: time
    coarse_clock: TimeMillis
    moment: datetime
    coarse: TimestampMillis
    fine: TimestampNanos
    exact: Annotated[int, timestamp(Unit.NANOS)]
    local: LocalTimestampMillis
    local_fine: LocalTimestampNanos
    price: Annotated[Decimal, decimal(9, 2)]
    boxed: Annotated[Decimal, decimal(9, 2, size=5, name="Boxed")]
    hash: Annotated[bytes, fixed(4, name="Hash")]
    key: UUID
    dense: Annotated[UUID, uuid(binary=True, name="Dense")]
    span: timedelta
    calendar: Duration
    colour: Colour
    point: Point
    names: list[str]
    unique: set[int]
    several: tuple[Point, ...]
    totals: dict[str, float]
    nested: dict[str, list[Point | None]]
    either: int | str | Point | Colour | None
    nothing: None = None
    optional: str | None = None


EVERYTHING = Everything(
    flag=True,
    small=-(2**31),
    whole=2**63 - 1,
    half=1.5,
    real=-2.25,
    text="Grüße " * 2_000,
    raw=bytes(range(256)),
    day=date(1, 1, 1),
    clock=time(23, 59, 59, 999_999),
    coarse_clock=time(1, 2, 3, 4_000),
    moment=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    coarse=datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    fine=datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
    exact=1_767_323_045_678_901_234,
    local=datetime(2026, 1, 2, 3, 4, 5, 6_000),
    local_fine=datetime(2026, 1, 2, 3, 4, 5, 6),
    price=Decimal("-1234567.89"),
    boxed=Decimal("-1.28"),
    hash=b"1234",
    key=UUID(int=7),
    dense=UUID(int=8),
    span=timedelta(days=3, milliseconds=5),
    calendar=Duration(1, 2, 3),
    colour=Colour.GREEN,
    point=Point(1, 2),
    names=["a", "", "b" * 10_000],
    unique={1, -1, 10**12},
    several=(Point(3), Point(4, 5)),
    totals={"": 0.5, "x": 1.0},
    nested={"k": [Point(1), None]},
    either=Point(9, 9),
)


def codec(cls: Any, reader: Any = None) -> Codec:
    writer = avro.parse(avro.schema_of(cls))
    return avro.codec(writer, avro.parse(avro.schema_of(reader)) if reader else None, reader or cls)


def test_every_type_goes_there_and_back() -> None:
    both = codec(Everything)
    data = both.encode(EVERYTHING)
    assert both.decode(data) == EVERYTHING


def test_fastavro_reads_the_same_schema_and_bytes() -> None:
    schema = json.loads(avro.schema_of(Everything))
    data = codec(Everything).encode(EVERYTHING)
    found = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)
    assert found["text"] == EVERYTHING.text
    assert found["point"] == {"x": 1, "y": 2}
    assert found["moment"] == EVERYTHING.moment
    assert found["price"] == EVERYTHING.price
    assert found["nested"] == {"k": [{"x": 1, "y": 0}, None]}


def test_the_class_and_the_plain_way_write_the_same_bytes() -> None:
    schema = avro.parse(avro.schema_of(Everything))
    data = avro.codec(schema, None, Everything).encode(EVERYTHING)
    plain = avro.codec(schema).decode(data)
    assert plain["colour"] == "GREEN" and plain["either"] == {"x": 9, "y": 9}
    assert plain["calendar"] == Duration(1, 2, 3)
    assert avro.codec(schema).encode(plain) == data


@pytest.mark.parametrize("value", [7, "seven", Point(1, 2), Colour.RED, None])
def test_a_union_takes_the_branch_of_the_value(value: Any) -> None:
    both = codec(Everything)
    changed = dataclasses.replace(EVERYTHING, either=value)
    assert both.decode(both.encode(changed)).either == value


def test_records_may_be_recursive() -> None:
    tree = Node(1, [Node(2, []), Node(3, [Node(4, [])])], Node(0, []))
    both = codec(Node)
    assert both.decode(both.encode(tree)) == tree


def test_recursion_without_end_is_an_error_of_the_message() -> None:
    both = codec(Node)
    tree = Node(0, [])
    for _ in range(100_000):
        tree = Node(0, [tree])
    with pytest.raises(EncodeError, match="deeply"):
        both.encode(tree)
    with pytest.raises(DecodeError, match="deeply"):
        both.decode(b"\x00\x02" * 100_000 + b"\x00\x00\x00" * 100_000)


@dataclasses.dataclass
class Plain:
    number: int
    names: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Frozen:
    number: int
    names: list[str] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    number: int
    names: list[str] = pydantic.Field(default=[], alias="theNames")


class Struct(msgspec.Struct, rename="camel"):
    number: int
    the_names: list[str] = []


@pytest.mark.parametrize(
    "value",
    [Plain(1, ["a"]), Frozen(number=1, names=["a"]), Model(number=1, theNames=["a"]), Struct(1, ["a"])],
    ids=lambda value: type(value).__name__,
)
def test_each_family_of_classes_goes_there_and_back(value: Any) -> None:
    both = codec(type(value))
    data = both.encode(value)
    assert data == b"\x02\x02\x02a\x00"
    assert both.decode(data) == value
    assert type(both.decode(data)) is type(value)


def test_a_class_that_validates_itself_has_its_say() -> None:
    class Adult(pydantic.BaseModel):
        age: int

        @pydantic.field_validator("age")
        @classmethod
        def grown(cls, age: int) -> int:
            if age < 18:
                raise ValueError("too young")
            return age

    @record
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    assert codec(Adult).decode(b"\x24") == Adult(age=18)
    with pytest.raises(ConstraintViolated, match="too young"):
        codec(Adult).decode(b"\x22")
    with pytest.raises(ConstraintViolated, match="odd"):
        codec(Even).decode(b"\x02")


@record
class Limited:
    age: Annotated[int, Min(0), Max(150)]
    ratio: Annotated[float, Min(0, exclusive=True), Max(1, exclusive=True)]
    code: Annotated[str, Length(2, 3), Pattern("^[A-Z]+$")]
    raw: Annotated[bytes, Length(max=2)]
    tags: Annotated[list[Annotated[str, Length(1)]], Length(1, 2)]
    total: Annotated[Decimal, decimal(6, 2), Min(Decimal("0.01"))]
    maybe: Annotated[int | None, Min(5)] = None


@record(name="Limited")
class Unlimited:
    age: int
    ratio: float
    code: str
    raw: bytes
    tags: list[str]
    total: Annotated[Decimal, decimal(6, 2)]
    maybe: int | None = None


LIMITED = Limited(150, 0.5, "AB", b"xy", ["a"], Decimal("0.01"), 5)


@pytest.mark.parametrize(
    "broken",
    [
        {"age": -1},
        {"age": 151},
        {"ratio": 0.0},
        {"ratio": 1.0},
        {"ratio": float("nan")},
        {"code": "A"},
        {"code": "ABCD"},
        {"code": "ab"},
        {"raw": b"xyz"},
        {"tags": []},
        {"tags": ["a", "b", "c"]},
        {"tags": [""]},
        {"total": Decimal("0.00")},
        {"maybe": 4},
    ],
    ids=str,
)
def test_constraints_hold_on_both_sides(broken: dict[str, Any]) -> None:
    schema = avro.parse(avro.schema_of(Limited))
    both = avro.codec(schema, None, Limited)
    assert both.decode(both.encode(LIMITED)) == LIMITED
    (name,) = broken
    with pytest.raises(ConstraintViolated) as caught:
        both.encode(dataclasses.replace(LIMITED, **broken))
    assert str(caught.value.where["field"]).startswith(name)
    fields = avro.codec(schema).decode(both.encode(LIMITED)) | broken
    with pytest.raises(ConstraintViolated) as caught:
        both.decode(codec(Unlimited).encode(Unlimited(**fields)))
    assert str(caught.value.where["field"]).startswith(name)
    with pytest.raises(ConstraintViolated) as caught:
        avro.codec(schema).encode(fields)
    assert str(caught.value.where["field"]).startswith(name)


def test_constraints_have_the_names_of_json_schema() -> None:
    fields = {field["name"]: field["type"] for field in json.loads(avro.schema_of(Limited))["fields"]}
    assert fields["age"] == {"type": "long", "minimum": 0, "maximum": 150}
    assert fields["code"] == {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[A-Z]+$"}
    assert (fields["tags"]["minItems"], fields["tags"]["maxItems"]) == (1, 2)
    assert fields["total"]["minimum"] == "0.01"


@pytest.mark.parametrize(
    ("type", "right", "wrong"),
    [
        ({"type": "int", "logicalType": "date", "minimum": "2026-01-01"}, date(2026, 1, 1), date(2025, 1, 1)),
        ({"type": "long", "logicalType": "time-micros", "maximum": "12:00:00"}, time(12), time(13)),
        (
            {"type": "long", "logicalType": "timestamp-millis", "minimum": "2026-01-01"},
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2025, 1, 1, tzinfo=UTC),
        ),
        ({"type": "long", "logicalType": "timestamp-millis", "minimum": 5}, 5, 4),
        ({"type": "map", "values": "int", "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"type": "string", "minLength": 2}, "ab", "a"),
        ({"type": "double", "exclusiveMaximum": 1}, 0.5, 1.0),
    ],
    ids=str,
)
def test_plain_values_obey_what_the_schema_states(type: dict[str, Any], right: Any, wrong: Any) -> None:
    plain = avro.codec(avro.parse(json.dumps(type)))
    plain.encode(right)
    with pytest.raises(ConstraintViolated):
        plain.encode(wrong)


@pytest.mark.parametrize(
    "type",
    [
        {"type": "int", "minimum": "low", "maximum": True},
        {"type": "int", "logicalType": "date", "minimum": "yesterday"},
        {"type": "string", "minLength": "x", "pattern": "("},
        {"type": "array", "items": "int", "minItems": None},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "minimum": "much"},
    ],
    ids=str,
)
def test_a_constraint_that_makes_no_sense_is_like_any_unknown_property(type: dict[str, Any]) -> None:
    value = {"int": 1, "string": "", "array": [], "bytes": Decimal(1)}[type["type"]]
    avro.codec(avro.parse(json.dumps(type))).encode(value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1], "Person is not of type record Person: list is not a mapping"),
        ({"age": "1"}, "age is not of type long, it is str"),
        ({"age": True}, "age is not of type long: bool is not a number"),
        ({"age": None}, "age is not of type long, it is None"),
        ({}, "age is missing"),
    ],
    ids=str,
)
def test_errors_name_what_was_given(value: Any, told: str) -> None:
    text = '{"type": "record", "name": "Person", "fields": [{"name": "age", "type": "long"}]}'
    with pytest.raises(EncodeError, match=told):
        avro.codec(avro.parse(text)).encode(value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("flag", 1),
        ("small", 2**31),
        ("whole", -(2**63) - 1),
        ("whole", "7"),
        ("whole", 7.0),
        ("half", 1e300),
        ("real", "1.0"),
        ("real", Decimal(1)),
        ("text", b"bytes"),
        ("text", None),
        ("text", "\ud800"),
        ("raw", "text"),
        ("day", datetime(2026, 1, 1)),
        ("clock", 7),
        ("clock", time(1, tzinfo=UTC)),
        ("moment", datetime(2026, 1, 1)),
        ("local", datetime(2026, 1, 1, tzinfo=UTC)),
        ("price", Decimal("0.001")),
        ("price", Decimal("12345678.00")),
        ("price", Decimal("Infinity")),
        ("price", 1.5),
        ("hash", b"123"),
        ("key", "text"),
        ("span", timedelta(microseconds=1)),
        ("span", timedelta(days=-1)),
        ("colour", "GREEN"),
        ("point", {"x": 1, "y": 2}),
        ("names", "text"),
        ("names", {"a": 1}),
        ("names", [1]),
        ("totals", ["x"]),
        ("totals", {1: 1.0}),
        ("several", [Point(2**31)]),
        ("nested", {"k": [7]}),
        ("either", 1.5),
        ("nothing", 0),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_with_its_field(name: str, wrong: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        codec(Everything).encode(dataclasses.replace(EVERYTHING, **{name: wrong}))
    assert str(caught.value.where["field"]).startswith(name)


def test_another_class_is_refused() -> None:
    with pytest.raises(EncodeError, match="Everything"):
        codec(Everything).encode(Point(1))


def test_an_older_writer_is_read_into_the_newer_class() -> None:
    @record(name="Person")
    class Old:
        name: str
        age: Int
        dropped: list[str]

    @record(name="Person")
    class New:
        full_name: Annotated[str, Aliases("name")]
        age: float
        tags: list[str] = ["new"]  # noqa: RUF012
        colour: Annotated[Colour, Fallback(Colour.RED)] = Colour.GREEN
        home: Point | None = None
        price: Annotated[Decimal, decimal(4, 2)] = Decimal("1.50")
        since: datetime = datetime(2026, 1, 1, tzinfo=UTC)
        place: Point = Point(1, 2)

    data = codec(Old).encode(Old("Ada", 36, ["x", "y"]))
    both = codec(Old, New)
    found = both.decode(data)
    assert found == New("Ada", 36.0)
    assert isinstance(found.age, float)
    found.tags.append("changed")
    found.place.x = 99
    assert both.decode(data) == New("Ada", 36.0, place=Point(1, 2))


def test_a_reader_of_the_older_class_cannot_write_what_it_has_no_field_for() -> None:
    @record(name="Person")
    class Old:
        name: str

    @record(name="Person")
    class New:
        name: str
        age: int = 0

    both = codec(Old, New)
    assert both.decode(b"\x02a") == New("a")
    with pytest.raises(EncodeError, match="age"):
        both.encode(New("a", 1))


def test_an_unknown_symbol_becomes_the_fallback() -> None:
    @named(name="Shade")
    class Wide(Enum):
        DARK = 1
        LIGHT = 2

    @named(name="Shade")
    class Narrow(Enum):
        OTHER = 1
        DARK = 2

    @record(name="Paint")
    class Writer:
        shades: list[Wide]

    @record(name="Paint")
    class Reader:
        shades: list[Annotated[Narrow, Fallback(Narrow.OTHER)]]

    data = codec(Writer).encode(Writer([Wide.DARK, Wide.LIGHT]))
    assert codec(Writer, Reader).decode(data) == Reader([Narrow.DARK, Narrow.OTHER])


def test_times_of_another_precision_stay_the_same_times() -> None:
    @record(name="Event")
    class Coarse:
        at: TimestampMillis
        clock: TimeMillis
        price: Annotated[Decimal, decimal(4, 1)]

    @record(name="Event")
    class Fine:
        at: datetime
        clock: time
        price: Annotated[Decimal, decimal(8, 1)]

    moment = datetime(2026, 5, 4, 3, 2, 1, 42_000, tzinfo=UTC)
    data = codec(Coarse).encode(Coarse(moment, time(1, 2, 3, 4_000), Decimal("1.5")))
    assert codec(Coarse, Fine).decode(data) == Fine(moment, time(1, 2, 3, 4_000), Decimal("1.5"))


def test_a_schema_that_the_class_does_not_fit_is_refused() -> None:
    schema = avro.parse('{"type":"record","name":"Point","fields":[{"name":"x","type":"string"}]}')
    with pytest.raises(IncompatibleSchema, match="x"):
        avro.codec(schema, None, Point)


def test_roots_need_not_be_records() -> None:
    for cls, value in (
        (str, "key"),
        (int, 7),
        (bytes, b"x"),
        (list[Point], [Point(1)]),
        (Point | None, None),
    ):
        both = avro.codec(avro.parse(avro.schema_of(cls)), None, cls)
        assert both.decode(both.encode(value)) == value


def test_a_codec_is_compiled_once() -> None:
    schema = avro.parse(avro.schema_of(Point))
    assert avro.codec(schema, None, Point) is AvroFormat(avro.native).codec(schema, None, Point)
    assert avro.codec(schema, None, Point) is not avro.codec(schema)


def test_the_schema_text_says_all_that_the_class_does() -> None:
    @record(name="Order", namespace="shop", doc="An order.", aliases=["Purchase"])
    class PlacedOrder:
        total: Annotated[int, Aliases("sum"), Min(0)] = 7
        colour: Annotated[Colour, Fallback(Colour.RED)] = Colour.GREEN
        note: str | None = None
        at: Point = Point(1, 2)

    assert json.loads(avro.schema_of(PlacedOrder)) == {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "doc": "An order.",
        "aliases": ["Purchase"],
        "fields": [
            {"name": "total", "type": {"type": "long", "minimum": 0}, "default": 7, "aliases": ["sum"]},
            {
                "name": "colour",
                "type": {
                    "type": "enum",
                    "name": "Colour",
                    "symbols": ["RED", "GREEN"],
                    "default": "RED",
                },
                "default": "GREEN",
            },
            {"name": "note", "type": ["null", "string"], "default": None},
            {
                "name": "at",
                "type": {
                    "type": "record",
                    "name": "Point",
                    "namespace": "test",
                    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}],
                },
                "default": {"x": 1, "y": 2},
            },
        ],
    }


def test_a_default_that_does_not_fit_is_found_with_the_class() -> None:
    @record
    class Wrong:
        number: Int = 2**40

    @record
    class Naive:
        at: datetime = datetime(2026, 1, 1)

    for cls in (Wrong, Naive):
        with pytest.raises(InvalidSchema):
            avro.schema_of(cls)


def test_two_types_of_one_name_are_refused() -> None:
    @record(name="Point", namespace="test")
    class Other:
        z: int

    @record
    class Both:
        one: Point
        other: Other

    with pytest.raises(InvalidSchema, match=r"test\.Point"):
        avro.schema_of(Both)


def test_errors_keep_the_values_to_themselves() -> None:
    class Adult(pydantic.BaseModel):
        secret: Annotated[str, pydantic.Field(max_length=3)]
        age: int

        @pydantic.model_validator(mode="after")
        def grown(self) -> Adult:
            if self.age < 18:
                raise ValueError("too young")
            return self

    plain = avro.codec(avro.parse(avro.schema_of(Adult)))
    for value in ({"secret": "hush hush", "age": 20}, {"secret": "sh!", "age": 17}):
        with pytest.raises(ConstraintViolated) as caught:
            codec(Adult).decode(plain.encode(value))
        assert "hush" not in str(caught.value) and "17" not in str(caught.value)


def test_a_key_that_is_no_field_is_told_with_its_place_and_the_fields_there_are() -> None:
    inner = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    fields = [{"name": "lines", "type": {"type": "array", "items": inner}}]
    plain = avro.codec(avro.parse(json.dumps({"type": "record", "name": "Order", "fields": fields})))
    with pytest.raises(EncodeError, match=r"lines\[\] has no field 'size'") as caught:
        plain.encode({"lines": [{"sku": "a"}, {"sku": "b", "size": 1}]})
    assert caught.value.where["field"] == "lines[].size"
    assert caught.value.next == "Its fields are: sku."


def test_of_a_union_a_plain_value_takes_the_branch_that_loses_nothing() -> None:
    record = {
        "type": "record",
        "name": "Known",
        "fields": [{"name": "id", "type": ["null", "long"], "default": None}],
    }
    plain = avro.codec(avro.parse(json.dumps([record, {"type": "map", "values": "long"}])))
    assert plain.decode(plain.encode({"id": 1})) == {"id": 1}
    assert plain.encode({"id": 1})[:1] == b"\x00"
    assert plain.encode({"other": 1})[:1] == b"\x02"
    assert plain.decode(plain.encode({"other": 1})) == {"other": 1}
