"""The native codec and the Python codec: one result, whatever goes in."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.avro.strategies import neighbours, record_schemas, schemas, successors, values
from tests.formats.avro.test_class_properties import class_of

from dragoman.core.errors import DecodeError, DragomanError, EncodeError
from dragoman.core.format import Codec
from dragoman.formats.avro import AvroFormat
from dragoman.schema.markers import Int, Length, Max, Min, Pattern, TimestampMillis
from dragoman.schema.records import record

relaxed = settings(max_examples=150)
AWKWARD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.just("\ud800"),
    st.builds(bytearray, st.binary(max_size=3)),
    st.lists(st.integers(), max_size=2).map(tuple),
    st.sets(st.text(max_size=2), max_size=2),
    st.dictionaries(st.one_of(st.text(max_size=2), st.integers()), st.integers(), max_size=2),
    st.datetimes(timezones=st.just(dt.timezone(dt.timedelta(hours=2)))),
    st.dates(),
)


def typed(value: Any) -> Any:
    """A value with the types of all its parts, in their order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), [typed(getattr(value, each.name)) for each in dataclasses.fields(value)]
    if isinstance(value, dict):
        return type(value), [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), repr(value)


def outcome(do: Callable[[Any], Any], given: Any) -> Any:
    """What came out, or all that is told of the error."""
    try:
        return typed(do(given))
    except DragomanError as error:
        return type(error), error.code, str(error), error.where, repr(error.__cause__)


def both(native: AvroFormat, python: AvroFormat, writer: Any, reader: Any = None) -> tuple[Codec, Codec]:
    texts = [native.parse(json.dumps(each)) for each in (writer, reader) if each is not None]
    return native.codec(*texts), python.codec(*texts)


@st.composite
def damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    found = bytearray(payload)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(found)))
        match draw(st.integers(0, 2)):
            case 0:
                found[at:] = b""
            case 1:
                found[at : at + 1] = draw(st.binary(min_size=1, max_size=10))
            case _:
                found[at:at] = draw(st.sampled_from([b"\xff" * 9, b"\x01", b"\x80\x80\x04", b"\x80\x00"]))
    return bytes(found)


@st.composite
def odd(draw: st.DrawFn, value: Any) -> Any:
    """The value, with something awkward somewhere."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 9)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: draw(odd(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        return [draw(odd(value[0])), *value[1:]]
    return draw(AWKWARD)


@given(data=st.data())
@relaxed
def test_values_become_the_same_bytes_and_come_back(
    native: AvroFormat, python: AvroFormat, data: st.DataObject
) -> None:
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    fast, slow = both(native, python, schema)
    payload = slow.encode(value)
    assert fast.encode(value) == payload
    assert typed(fast.decode(payload)) == typed(slow.decode(payload))


@given(data=st.data())
@relaxed
def test_odd_values_have_the_same_fate(native: AvroFormat, python: AvroFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(odd(data.draw(values(schema))))
    fast, slow = both(native, python, schema)
    assert outcome(fast.encode, value) == outcome(slow.encode, value)


@given(data=st.data())
@relaxed
def test_damaged_bytes_have_the_same_fate(
    native: AvroFormat, python: AvroFormat, data: st.DataObject
) -> None:
    schema = data.draw(schemas())
    fast, slow = both(native, python, schema)
    payload = data.draw(damaged(slow.encode(data.draw(values(schema)))))
    assert outcome(fast.decode, payload) == outcome(slow.decode, payload)


@given(data=st.data(), payload=st.binary(max_size=60))
@relaxed
def test_random_bytes_have_the_same_fate_also_when_skipped(
    native: AvroFormat, python: AvroFormat, data: st.DataObject, payload: bytes
) -> None:
    schema = data.draw(schemas())
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "gone", "type": schema}]}
    for reader in (None, {"type": "record", "name": "Outer", "fields": []}):
        fast, slow = both(native, python, outer, reader)
        assert outcome(fast.decode, payload) == outcome(slow.decode, payload)


@given(data=st.data())
@relaxed
def test_versions_are_resolved_alike(native: AvroFormat, python: AvroFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    reader = data.draw(st.one_of(successors(schema), neighbours(schema)))
    if python.incompatibilities(python.parse(json.dumps(reader)), python.parse(json.dumps(schema))):
        return
    fast, slow = both(native, python, schema, reader)
    payload = python.codec(python.parse(json.dumps(schema))).encode(data.draw(values(schema)))
    for each in (payload, data.draw(damaged(payload))):
        assert outcome(fast.decode, each) == outcome(slow.decode, each)


@given(data=st.data())
@relaxed
def test_classes_go_the_same_way(native: AvroFormat, python: AvroFormat, data: st.DataObject) -> None:
    schema = data.draw(record_schemas())
    cls = class_of(schema)
    parsed = native.parse(json.dumps(schema))
    fast, slow = native.codec(parsed, None, cls), python.codec(parsed, None, cls)
    payload = python.codec(parsed).encode(data.draw(values(schema)))
    instance = slow.decode(payload)
    assert typed(fast.decode(payload)) == typed(instance)
    assert fast.encode(instance) == payload
    broken = data.draw(damaged(payload))
    assert outcome(fast.decode, broken) == outcome(slow.decode, broken)
    for field in dataclasses.fields(cls):
        setattr(instance, field.name, data.draw(st.one_of(AWKWARD, st.just(getattr(instance, field.name)))))
    assert outcome(fast.encode, instance) == outcome(slow.encode, instance)


@given(moment=st.datetimes(), number=st.integers(-(2**63), 2**63 - 1))
@relaxed
@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
@pytest.mark.parametrize("kind", ["timestamp", "local-timestamp"])
def test_moments_of_all_years_are_the_same(
    native: AvroFormat, python: AvroFormat, kind: str, unit: str, moment: dt.datetime, number: int
) -> None:
    fast, slow = both(native, python, {"type": "long", "logicalType": f"{kind}-{unit}"})
    zone = dt.timezone(dt.timedelta(minutes=-150))
    for value in (number, moment, moment.replace(tzinfo=dt.UTC), moment.replace(tzinfo=zone)):
        assert outcome(fast.encode, value) == outcome(slow.encode, value)
    payload = slow.encode(number)
    assert outcome(fast.decode, payload) == outcome(slow.decode, payload)


@given(number=st.integers(-(2**31), 2**31 - 1), day=st.dates())
@relaxed
def test_days_of_all_years_are_the_same(
    native: AvroFormat, python: AvroFormat, number: int, day: dt.date
) -> None:
    fast, slow = both(native, python, {"type": "int", "logicalType": "date"})
    assert fast.encode(day) == slow.encode(day)
    for payload in (slow.encode(day), slow.encode(number)):
        assert outcome(fast.decode, payload) == outcome(slow.decode, payload)


class Status(Enum):
    NEW = 1
    PAID = 2


@record
class Line:
    item: str
    count: Annotated[Int, Min(1), Max(99, exclusive=True)] = 1


@record
class Order:
    number: int
    customer: Annotated[str, Length(1, 40), Pattern("^[A-Z]")]
    amount: float
    paid: bool
    status: Status
    lines: Annotated[list[Line], Length(0, 3)]
    prices: dict[str, float]
    created: TimestampMillis
    due: dt.date
    parts: tuple[Order, ...] = ()
    answer: Line | Status | str | int | None = None
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int
    text: str = "none"


@dataclasses.dataclass
class Loose:
    number: int
    frozen: Frozen


class Struct(msgspec.Struct, kw_only=True):
    number: int
    loose: Loose


def order(**changes: Any) -> Order:
    values: dict[str, Any] = {
        "number": 2**40,
        "customer": "Ada Lovelace",
        "amount": 12.5,
        "paid": True,
        "status": Status.PAID,
        "lines": [Line("tea", 2), Line("Käse", 98)],
        "prices": {"tea": 1.5, "Käse": -0.0},
        "created": dt.datetime(2026, 3, 14, 15, 9, 26, 535_000, tzinfo=dt.UTC),
        "due": dt.date(2026, 4, 1),
    }
    return Order(**{**values, **changes})


SAMPLES = [
    order(),
    order(parts=(order(), order(parts=(order(note="inner"),)))),
    order(answer=Line("one")),
    order(answer=Status.NEW),
    order(answer="text", note="note"),
    order(answer=-7),
    order(created=dt.datetime(1812, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
    Struct(number=1, loose=Loose(2, Frozen(3))),
]


def never(given: Any) -> Any:
    raise AssertionError("It was left to Python.")


@pytest.mark.parametrize("value", SAMPLES, ids=lambda value: type(value).__name__)
def test_ordinary_messages_are_not_left_to_python(native: AvroFormat, python: AvroFormat, value: Any) -> None:
    from dragoman.formats.avro.native.codec import NativeCodec
    from dragoman.formats.avro.native.engine import Decoder, Encoder

    parsed = native.parse(native.schema_of(type(value)))
    fast = native.codec(parsed, None, type(value))
    payload = python.codec(parsed, None, type(value)).encode(value)
    assert isinstance(fast, NativeCodec)
    assert fast.writer is not None
    assert fast.reader is not None
    assert Encoder(fast.writer, never).encode(value) == payload
    assert Decoder(fast.reader, never).decode(payload) == value
    assert Encoder(fast.writer, never, b"head").encode(value) == b"head" + payload
    assert Decoder(fast.reader, never, 4).decode(b"head" + payload) == value
    plain = native.codec(parsed)
    assert isinstance(plain, NativeCodec)
    assert plain.reader is not None
    assert Decoder(plain.reader, never).decode(payload) == python.codec(parsed).decode(payload)


@pytest.mark.parametrize(
    "changes",
    [
        {"number": True},
        {"number": 2**63},
        {"customer": "ada"},
        {"customer": ""},
        {"customer": "A\ud800"},
        {"amount": 10**400},
        {"amount": 7},
        {"paid": 1},
        {"status": "PAID"},
        {"lines": [Line("x", 0)]},
        {"lines": [Line("x", 99)]},
        {"lines": [Line("x")] * 4},
        {"lines": (Line("x"),)},
        {"lines": [None]},
        {"lines": None},
        {"prices": {1: 2.0}},
        {"created": dt.datetime(2026, 1, 1)},
        {"due": dt.datetime(2026, 1, 1)},
        {"answer": 1.5},
        {"answer": True},
        {"note": 5},
    ],
    ids=str,
)
def test_an_odd_field_has_the_same_fate(
    native: AvroFormat, python: AvroFormat, changes: dict[str, Any]
) -> None:
    parsed = native.parse(native.schema_of(Order))
    fast, slow = native.codec(parsed, None, Order), python.codec(parsed, None, Order)
    value = order(**changes)
    assert outcome(fast.encode, value) == outcome(slow.encode, value)


def test_every_cut_and_every_other_byte_has_the_same_fate(native: AvroFormat, python: AvroFormat) -> None:
    parsed = native.parse(native.schema_of(Order))
    fast, slow = native.codec(parsed, None, Order), python.codec(parsed, None, Order)
    payload = slow.encode(order(answer=Line("one"), note="n", parts=(order(),)))
    for at in range(len(payload)):
        for broken in (
            payload[:at],
            payload[:at] + b"\x00" + payload[at + 1 :],
            payload[:at] + b"\xff" + payload[at + 1 :],
            payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :],
            payload[:at] + bytes([payload[at] ^ 128]) + payload[at + 1 :],
        ):
            assert outcome(fast.decode, broken) == outcome(slow.decode, broken)


def test_what_nests_deeply_is_left_to_python(native: AvroFormat, python: AvroFormat) -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "inner", "type": ["null", "Tree"]}],
    }
    fast, slow = both(native, python, tree)
    for depth in (10, 99, 150, 3000):
        value: Any = {"inner": None}
        for _ in range(depth):
            value = {"inner": value}
        payload = b"\x02" * depth + b"\x00"
        if depth < 200:
            assert fast.encode(value) == slow.encode(value) == payload
            assert fast.decode(payload) == slow.decode(payload) == value
        else:
            with pytest.raises(EncodeError, match="too deeply"):
                fast.encode(value)
            with pytest.raises(DecodeError, match="too deeply"):
                fast.decode(payload)


def test_a_value_that_contains_itself_is_refused(native: AvroFormat, python: AvroFormat) -> None:
    value = order()
    value.parts = (value,)
    parsed = native.parse(native.schema_of(Order))
    with pytest.raises(EncodeError, match="too deeply"):
        native.codec(parsed, None, Order).encode(value)


def test_frames_are_written_and_read(native: AvroFormat, python: AvroFormat) -> None:
    parsed = native.parse(native.schema_of(Order))
    for avro in (native, python):
        framed = avro.codec(parsed, None, Order).framed(b"\0\0\0\0\7", Order)
        frame = framed.encode(order())
        assert frame == b"\0\0\0\0\7" + avro.codec(parsed, None, Order).encode(order())
        assert framed.decode(frame) == order()
        with pytest.raises(EncodeError) as caught:
            framed.encode(Line("x"))
        assert caught.value.code == "message.encode.class"
        for short in (b"", b"\0\0\0\0", b"\0\0\0\0\7"):
            with pytest.raises(DecodeError):
                framed.decode(short)


def test_instances_of_a_derived_class_are_written(native: AvroFormat) -> None:
    class Special(Order):
        pass

    framed = native.codec(native.parse(native.schema_of(Order)), None, Order).framed(b"head", Order)
    plain = order()
    special = Special(**{each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)})
    assert framed.encode(special) == framed.encode(plain)


def test_an_error_does_not_tell_of_the_native_attempt(native: AvroFormat) -> None:
    codec = native.codec(native.parse('"string"'))
    for do, wrong in ((codec.decode, b"\x02\xff"), (codec.encode, 1)):
        with pytest.raises((DecodeError, EncodeError)) as caught:
            do(wrong)
        cause = caught.value.__cause__
        assert cause is not None
        assert cause.__context__ is None


def test_payloads_that_are_not_bytes_are_left_to_python(native: AvroFormat, python: AvroFormat) -> None:
    fast, slow = both(native, python, "long")
    for payload in (bytearray(b"\x02"), memoryview(b"\x02")):
        assert fast.decode(payload) == slow.decode(payload) == 1  # type: ignore[arg-type]


def test_defaults_that_can_change_are_not_shared(native: AvroFormat) -> None:
    writer = {"type": "record", "name": "R", "fields": []}
    fields = [
        {"name": "empty", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "full", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
        {"name": "same", "type": "int", "default": 7},
    ]
    codec, _ = both(native, native, writer, {**writer, "fields": fields})
    first = codec.decode(b"")
    assert first == {"empty": [], "full": {"a": 1}, "same": 7}
    first["empty"].append(1)
    first["full"]["b"] = 2
    assert codec.decode(b"") == {"empty": [], "full": {"a": 1}, "same": 7}


@dataclasses.dataclass
class Sly:
    number: int


@dataclasses.dataclass
class Slies:
    lines: list[Sly]
    by_name: dict[str, Sly]


@pytest.mark.parametrize("change", ["clear", "append"])
def test_what_changes_while_it_is_written_does_no_harm(
    native: AvroFormat, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    codec = native.codec(native.parse(native.schema_of(Slies)), None, Slies)
    value = Slies([Sly(1), Sly(2), Sly(3)], {"a": Sly(4), "b": Sly(5)})
    codec.encode(value)

    def number(self: Sly) -> int:
        value.by_name.clear()
        if change == "clear":
            value.lines.clear()
        elif len(value.lines) < 100:
            value.lines.append(Sly(0))
        return 7

    monkeypatch.setattr(Sly, "number", property(number), raising=False)
    outcome(codec.encode, value)
    value.lines = []
    value.by_name = {"a": Sly.__new__(Sly), "b": Sly.__new__(Sly)}
    outcome(codec.encode, value)
