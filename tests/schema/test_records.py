"""Describing classes, whatever family they come from."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID, uuid4

import msgspec
import pydantic
import pytest

from dragoman.core.errors import InvalidSchema
from dragoman.schema.making import make_enum
from dragoman.schema.markers import (
    Aliases,
    Doc,
    Duration,
    Fallback,
    Float,
    Int,
    Length,
    Max,
    Min,
    Name,
    Order,
    Pattern,
    Primitive,
    TimestampMillis,
    Unit,
    decimal,
    fixed,
    timestamp,
)
from dragoman.schema.records import describe, is_record, named, record, type_of
from dragoman.schema.tagging import Tag, tag, tag_of, tags, untag
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    Construction,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    UnionType,
    UuidType,
)


class Colour(Enum):
    RED = 1
    OTHER = 2


@record
class Node:
    value: int
    left: Node | None = None
    right: Node | None = None


@record
class Chicken:
    eggs: list[Egg]


@record
class Egg:
    hatched: Chicken | None = None


def types_of(cls: type) -> dict[str, Any]:
    return {each.name: each.type for each in describe(cls).fields}


def primitive(name: str) -> PrimitiveType:
    return PrimitiveType(Primitive(name))


def test_python_types_map_to_schema_types() -> None:
    @record
    class Everything:
        flag: bool
        whole: int
        small: Int
        real: float
        half: Float
        text: str
        raw: bytes
        nothing: None
        day: date
        clock: time
        moment: datetime
        coarse: TimestampMillis
        price: Annotated[Decimal, decimal(8, 2)]
        hash: Annotated[bytes, fixed(16)]
        key: UUID
        span: timedelta
        calendar: Duration
        colour: Colour
        names: list[str]
        unique: set[int]
        several: tuple[int, ...]
        totals: dict[str, float]

    found = types_of(Everything)
    assert found["flag"] == primitive("boolean")
    assert found["whole"] == primitive("long")
    assert found["small"] == primitive("int")
    assert found["real"] == primitive("double")
    assert found["half"] == primitive("float")
    assert found["text"] == primitive("string")
    assert found["raw"] == primitive("bytes")
    assert found["nothing"] == primitive("null")
    assert found["day"] == DateType()
    assert found["clock"] == TimeType(Unit.MICROS)
    assert found["moment"] == TimestampType(Unit.MICROS)
    assert found["coarse"] == TimestampType(Unit.MILLIS)
    assert found["price"] == DecimalType(8, 2)
    assert isinstance(found["hash"], FixedType) and found["hash"].names.full == "hash"
    assert found["key"] == UuidType()
    assert isinstance(found["span"], DurationType) and found["span"].python is timedelta
    assert isinstance(found["calendar"], DurationType) and found["calendar"].python is Duration
    assert isinstance(found["colour"], EnumType) and found["colour"].symbols == ("RED", "OTHER")
    assert found["names"] == ArrayType(primitive("string"))
    assert found["unique"] == ArrayType(primitive("long"), set)
    assert found["several"] == ArrayType(primitive("long"), tuple)
    assert found["totals"] == MapType(primitive("double"))


def test_an_optional_field_defaults_to_null_in_the_schema_only() -> None:
    @record
    class Note:
        text: str | None
        priority: int

    text, priority = describe(Note).fields
    assert text.type == UnionType((primitive("null"), primitive("string")))
    assert text.default is None
    assert priority.default is MISSING
    with pytest.raises(TypeError):
        Note(priority=1)  # type: ignore[call-arg]


def test_the_branch_of_the_default_comes_first() -> None:
    @record
    class Note:
        text: str | None = "empty"
        number: int | float | None = 1.5

    text, number = describe(Note).fields
    assert text.type == UnionType((primitive("string"), primitive("null")))
    assert isinstance(number.type, UnionType)
    assert number.type.branches[0] == primitive("double")


def test_markers_say_the_rest() -> None:
    @record(name="Order", namespace="shop", doc="An order.", aliases=["Purchase"])
    class PlacedOrder:
        total: Annotated[
            int,
            Doc("In cents."),
            Aliases("sum", "amount"),
            Order("descending"),
            Name("grand_total"),
            Min(0),
            Max(100, exclusive=True),
        ]
        colour: Annotated[Colour, Fallback(Colour.OTHER)]
        code: Annotated[str, Length(2, 3), Pattern("^[A-Z]+$")]
        exact: Annotated[int, timestamp(Unit.NANOS, local=True)]

    described = describe(PlacedOrder)
    assert described.names.full == "shop.Order"
    assert (described.names.doc, described.names.aliases) == ("An order.", ("Purchase",))
    total, colour, code, exact = described.fields
    assert (total.name, total.attribute, total.doc) == ("grand_total", "total", "In cents.")
    assert (total.aliases, total.order) == (("sum", "amount"), "descending")
    assert total.type == PrimitiveType(Primitive.LONG, (Min(0), Max(100, exclusive=True)))
    assert isinstance(colour.type, EnumType) and colour.type.fallback == "OTHER"
    assert code.type == PrimitiveType(Primitive.STRING, (Length(2, 3), Pattern("^[A-Z]+$")))
    assert exact.type == TimestampType(Unit.NANOS, True, int)


def test_constraints_of_an_optional_go_to_its_value() -> None:
    @record
    class Age:
        years: Annotated[int | None, Min(0)] = None

    assert types_of(Age)["years"] == UnionType((primitive("null"), PrimitiveType(Primitive.LONG, (Min(0),))))


def test_a_record_is_a_light_plain_class() -> None:
    first = Node(1, Node(2))
    assert first == Node(1, Node(2)) and first != Node(1)
    assert repr(first) == "Node(value=1, left=Node(value=2, left=None, right=None), right=None)"
    assert not hasattr(first, "__dict__")
    with pytest.raises(AttributeError):
        first.other = 1  # type: ignore[attr-defined]


def test_a_mutable_default_belongs_to_one_instance() -> None:
    @record
    class Basket:
        items: list[str] = []  # noqa: RUF012

    one, other = Basket(), Basket()
    one.items.append("apple")
    assert other.items == []
    assert describe(Basket).fields[0].default == []


def test_a_clock_is_no_default_of_a_schema() -> None:
    @record
    class Event:
        id: UUID = field(default_factory=uuid4)
        when: datetime = field(default_factory=datetime.now)

    assert [each.default for each in describe(Event).fields] == [MISSING, MISSING]


def test_records_may_contain_themselves_and_each_other() -> None:
    left = types_of(Node)["left"]
    assert isinstance(left, UnionType) and left.branches[1] is describe(Node)
    egg = describe(Chicken).fields[0].type
    assert isinstance(egg, ArrayType) and egg.items is describe(Egg)


def test_a_class_is_described_once_however_many_threads_ask() -> None:
    @record
    class Leaf:
        value: int

    @record
    class Branch:
        leaves: list[Leaf]

    start = threading.Barrier(8)
    found: list[tuple[RecordType, int]] = []

    def ask() -> None:
        start.wait(30)
        described = describe(Branch)
        found.append((described, len(described.fields)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert all(described is describe(Branch) and fields == 1 for described, fields in found)


def test_dataclasses_models_and_structs_are_accepted_unchanged() -> None:
    @dataclasses.dataclass
    class Plain:
        number: Annotated[int, Min(1)]
        names: list[str] = field(default_factory=list)

    class Model(pydantic.BaseModel):
        number: int = pydantic.Field(ge=1)
        names: list[str] = []

    class Struct(msgspec.Struct):
        number: Annotated[int, msgspec.Meta(ge=1)]
        names: list[str] = []

    for cls in (Plain, Model, Struct):
        assert is_record(cls)
        number, names = describe(cls).fields
        assert number.type == PrimitiveType(Primitive.LONG, (Min(1),))
        assert number.default is MISSING
        assert (names.type, names.default) == (ArrayType(primitive("string")), [])
        assert describe(cls).values(cls(number=2)) == {"number": 2, "names": []}


def test_descriptions_of_models_and_structs_are_docs() -> None:
    class Model(pydantic.BaseModel):
        number: int = pydantic.Field(description="How many.")

    class Struct(msgspec.Struct):
        number: Annotated[int, msgspec.Meta(description="How many.")]

    for cls in (Model, Struct):
        assert describe(cls).fields[0].doc == "How many."


def test_renamed_fields_of_models_and_structs_keep_their_names() -> None:
    class Model(pydantic.BaseModel):
        first_name: str = pydantic.Field(alias="firstName")

    class Struct(msgspec.Struct, rename="camel"):
        first_name: str

    model, struct = describe(Model).fields[0], describe(Struct).fields[0]
    assert (model.name, model.attribute, model.argument) == ("firstName", "first_name", "firstName")
    assert (struct.name, struct.attribute, struct.argument) == ("firstName", "first_name", "first_name")


def test_construction_runs_whatever_the_class_defines() -> None:
    @record
    class Plain:
        a: int

    @record(frozen=True)
    class Frozen:
        a: int

    @record
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError

    @dataclasses.dataclass(kw_only=True, frozen=True)
    class Keywords:
        a: int

    @dataclasses.dataclass(init=False)
    class HandMade:
        a: int

        def __init__(self, a: int) -> None:
            self.a = a + 1

    class Struct(msgspec.Struct, kw_only=True):
        a: int

    expected = {
        Plain: Construction.ASSIGN,
        Frozen: Construction.POSITIONAL,
        Checked: Construction.POSITIONAL,
        Keywords: Construction.KEYWORD,
        HandMade: Construction.KEYWORD,
        Struct: Construction.KEYWORD,
    }
    assert {cls: describe(cls).construction for cls in expected} == expected


def test_foreign_classes_and_enums_can_be_named() -> None:
    @named(name="Shade", namespace="paint", doc="A shade.")
    class Tone(Enum):
        DARK = 1

    described = type_of(Tone)
    assert isinstance(described, EnumType)
    assert (described.names.full, described.names.doc) == ("paint.Shade", "A shade.")


T = TypeVar("T")


@dataclasses.dataclass
class Boxed(Generic[T]):
    inside: T


@pytest.mark.parametrize(
    "annotation",
    [
        Decimal,
        object,
        list,
        dict[int, str],
        tuple[int, str],
        Any,
        Annotated[int, Length(1)],
        complex,
        Boxed[int],
    ],
)
def test_what_has_no_type_is_refused_with_its_place(annotation: Any) -> None:
    cls = dataclasses.make_dataclass("Odd", [("field", annotation)])
    with pytest.raises(InvalidSchema, match=r"Odd\.field"):
        describe(cls)


def test_a_plain_class_is_told_what_to_do() -> None:
    class Plain:
        a: int

    with pytest.raises(InvalidSchema, match="@record"):
        describe(Plain)


def test_a_failed_description_leaves_nothing_behind() -> None:
    @record
    class Good:
        a: int

    @record
    class Bad:
        good: Good
        odd: object

    for _ in range(2):
        with pytest.raises(InvalidSchema):
            describe(Bad)
    assert len(describe(Good).fields) == 1


def test_a_class_carries_one_tag_per_registry_channel_contract_and_version() -> None:
    @record
    class Order:
        id: int

    @record
    class Child(Order):
        more: int

    first = Tag("http://one", "orders", "orders-value", 1, 7)
    second = Tag("http://one", "orders", "orders-value", 2, 9)
    elsewhere = Tag("http://two", "orders", "orders-value", 1, 3)
    for each in (first, second, elsewhere, first):
        tag(Order, each)
    assert set(tags(Order)) == {first, second, elsewhere}
    assert tags(Child) == ()
    assert tag_of(Order, "http://one", "orders") == second
    assert tag_of(Order, "http://one", "orders", "other") is None
    untag(Order, "http://one")
    assert tags(Order) == (elsewhere,)


def test_a_default_that_depends_on_other_fields_is_none_of_the_schema() -> None:
    class Model(pydantic.BaseModel):
        name: str
        shown: str = pydantic.Field(default_factory=lambda data: data["name"].title())

    assert [each.default for each in describe(Model).fields] == [MISSING, MISSING]


def test_labels_that_no_enum_of_python_can_have_are_told() -> None:
    with pytest.raises(InvalidSchema) as caught:
        make_enum("Order", "shop", [("mro", 0)])
    assert caught.value.code == "schema.indescribable"
