"""What records may rely on, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from dragoman.core.errors import ConstraintViolated, EncodeError, MessageError
from dragoman.core.format import Codec, Format
from dragoman.core.loading import FORMATS, load
from dragoman.schema.markers import Length, Min
from dragoman.schema.records import record


@pytest.fixture(params=["AVRO", "JSON", "PROTOBUF", "THRIFT"])
def format(request: pytest.FixtureRequest) -> Format:
    found: Format = load(FORMATS, request.param)()
    assert found.schema_type == request.param
    return found


def codec(format: Format, cls: type, schema_of: type | None = None) -> Codec:
    return format.codec(format.parse(format.schema_of(schema_of or cls)), cls=cls)


@dataclass
class Plain:
    name: str
    size: int | None = None


class Model(pydantic.BaseModel):
    name: str
    size: int | None = None


class Struct(msgspec.Struct, frozen=True):
    name: str
    size: int | None = None


BYTES = {
    "AVRO": b"\x02a\x02\x06",
    "JSON": b'{"name":"a","size":3}',
    "PROTOBUF": b"\x00\x0a\x01a\x10\x03",
    "THRIFT": b"\x18\x01a\x16\x06\x00",
}


@pytest.mark.parametrize("cls", [Plain, Model, Struct])
def test_the_same_record_as_dataclass_model_and_struct(format: Format, cls: Any) -> None:
    both, made = codec(format, cls, Plain), cls(name="a", size=3)
    assert both.encode(made) == BYTES[format.schema_type]
    assert both.decode(BYTES[format.schema_type]) == made


def test_a_codec_can_put_a_header_in_front_and_pass_over_it(format: Format) -> None:
    framed = codec(format, Plain).framed(b"head ", Plain)
    frame = framed.encode(Plain("a", 3))
    assert frame == b"head " + BYTES[format.schema_type]
    assert framed.decode(frame) == Plain("a", 3)
    with pytest.raises(EncodeError, match="takes Plain, not Struct"):
        framed.encode(Struct("a", 3))


def test_the_schema_of_a_class_is_written_once(format: Format) -> None:
    assert format.schema_of(Plain) is format.schema_of(Plain)


@record
class Guarded:
    size: Annotated[int, Min(1)]
    names: Annotated[list[str], Length(max=1)]


@record(name="Guarded")
class Open:
    size: int
    names: list[str]


@pytest.mark.parametrize("bad", [(0, []), (1, ["a", "b"])])
def test_constraints_hold_on_both_ways(format: Format, bad: tuple[int, list[str]]) -> None:
    guarded = codec(format, Guarded)
    with pytest.raises(ConstraintViolated):
        guarded.encode(Guarded(*bad))
    with pytest.raises(ConstraintViolated):
        guarded.decode(codec(format, Open).encode(Open(*bad)))


@record
class When:
    at: date | datetime


@record
class Shape:
    name: str


@record
class Circle(Shape):
    radius: int


@record
class Drawing:
    shape: Shape | Circle


@pytest.mark.parametrize(
    "value",
    [
        When(date(2026, 1, 2)),
        When(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        Drawing(Shape("s")),
        Drawing(Circle("c", 3)),
    ],
    ids=repr,
)
def test_a_union_keeps_a_class_apart_from_the_one_it_derives_from(format: Format, value: Any) -> None:
    both = codec(format, type(value))
    assert both.decode(both.encode(value)) == value


@record(name="Order")
class Before:
    name: str
    by: Shape | str


@record(name="Order")
class After:
    name: str
    by: Shape | str | int
    note: str | None = None


def test_a_newer_class_reads_what_it_could_not_write(format: Format) -> None:
    old, new = format.parse(format.schema_of(Before)), format.parse(format.schema_of(After))
    both = format.codec(old, new, After)
    assert both.decode(format.codec(old, cls=Before).encode(Before("n", "me"))) == After("n", "me")
    with pytest.raises(EncodeError):
        both.encode(After("n", "me", "would be lost"))


@record
class Picky:
    number: int

    def __post_init__(self) -> None:
        assert self.number != 1, "one"
        {2: [0], 3: {}}.get(self.number, [0])[0]


@pytest.mark.parametrize("number", [1, 3])
def test_whatever_a_class_raises_is_an_error_of_the_message(format: Format, number: int) -> None:
    both = codec(format, Picky)
    plain = format.codec(format.parse(format.schema_of(Picky)))
    assert both.decode(plain.encode({"number": 2})) == Picky(2)
    with pytest.raises(MessageError):
        both.decode(plain.encode({"number": number}))


@record
class Part:
    size: int


@record
class Whole:
    number: int
    text: str
    parts: list[Part]


@pytest.mark.parametrize("field", ["number", "text", "parts"])
@pytest.mark.parametrize("wrong", [-987_654_321_987_654_321_987, -987.5, {"hush": "hush"}, ["hush"]], ids=str)
def test_errors_name_the_field_and_keep_the_value_to_themselves(
    format: Format, field: str, wrong: Any
) -> None:
    schema = format.parse(format.schema_of(Whole))
    right = {"number": 1, "text": "t", "parts": []}
    for encode, value in (
        (format.codec(schema).encode, right | {field: wrong}),
        (format.codec(schema, cls=Whole).encode, Whole(**(right | {field: wrong}))),
    ):
        with pytest.raises(MessageError) as caught:
            encode(value)
        assert "hush" not in str(caught.value) and "987" not in str(caught.value)
        assert field in str(caught.value.where.get("field") or caught.value.where["pointer"])


@pytest.mark.parametrize("field", ["number", "text", "parts"])
def test_none_is_no_value_of_a_field_that_is_not_optional(format: Format, field: str) -> None:
    whole = Whole(1, "t", [])
    setattr(whole, field, None)
    with pytest.raises(EncodeError):
        codec(format, Whole).encode(whole)


@record
class Diary:
    day: date
    notes: list[str]


@pytest.mark.parametrize(
    "given",
    [
        (datetime(2026, 1, 2, 3, tzinfo=UTC), []),
        (date(2026, 1, 2), "abc"),
        (date(2026, 1, 2), {"a": 1}),
    ],
    ids=str,
)
def test_what_is_nearly_of_the_type_is_refused_rather_than_cut(
    format: Format, given: tuple[Any, Any]
) -> None:
    with pytest.raises(EncodeError):
        codec(format, Diary).encode(Diary(*given))


def test_a_plain_value_with_a_key_that_is_no_field_is_refused(format: Format) -> None:
    plain = format.codec(format.parse(format.schema_of(Plain)))
    with pytest.raises(MessageError, match="sice") as caught:
        plain.encode({"name": "a", "sice": 3})
    assert "'a'" not in str(caught.value), "values have no place in logs"
