"""What holds for every document and every message, with thriftpy2 as the judge of the bytes."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.thrift.strategies import BASES, Thrift, bodies, documents, pairs, struct_values

from dragoman.core.errors import DecodeError, InvalidSchema, MessageError
from dragoman.core.format import Policy
from dragoman.formats.thrift import Protocol, ThriftFormat, ThriftSchema
from dragoman.formats.thrift.classes import record_class

FORMAT = ThriftFormat()
SETTINGS = settings(deadline=None, max_examples=100)


@SETTINGS
@given(documents, st.data())
def test_what_is_encoded_is_decoded_again(document: Thrift, data: st.DataObject) -> None:
    schema = FORMAT.parse(document.text)
    assert schema.root is not None
    codec = FORMAT.codec(schema)
    value = data.draw(struct_values(schema.root))
    payload = codec.encode(value)
    assert codec.decode(payload) == value
    assert codec.encode(codec.decode(payload)) == payload


@SETTINGS
@given(documents, st.data())
def test_the_classes_of_a_schema_hold_its_messages(document: Thrift, data: st.DataObject) -> None:
    schema = FORMAT.parse(document.text)
    assert schema.root is not None
    try:
        cls = record_class(schema)
    except InvalidSchema as error:
        assert "keys" in str(error)
        return
    codec = FORMAT.codec(schema, cls=cls)
    payload = FORMAT.codec(schema).encode(data.draw(struct_values(schema.root)))
    assert codec.encode(codec.decode(payload)) == payload


@SETTINGS
@given(documents, st.data())
def test_damaged_bytes_are_message_errors_and_nothing_else(document: Thrift, data: st.DataObject) -> None:
    schema = FORMAT.parse(document.text)
    assert schema.root is not None
    codec = FORMAT.codec(schema)
    payload = bytearray(codec.encode(data.draw(struct_values(schema.root))))
    changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4)
    for at, byte in data.draw(changes):
        payload[at % len(payload)] = byte
    noise = data.draw(st.binary(max_size=30))
    for damaged in (bytes(payload), bytes(payload[: len(payload) // 2]), noise, bytes(payload) + noise):
        try:
            codec.decode(damaged)
        except MessageError as error:
            assert isinstance(error, DecodeError)


@settings(deadline=None, max_examples=200)
@given(pairs, st.data(), st.sampled_from((Policy.STRICT, Policy.EXACT)))
def test_schemas_judged_compatible_read_each_old_value(
    pair: tuple[Thrift, Thrift], data: st.DataObject, policy: Policy
) -> None:
    old, new = (FORMAT.parse(each.text) for each in pair)
    reasons = FORMAT.incompatibilities(new, old, policy)
    for reason in reasons:
        assert reason.counterexample is None or json.loads(reason.counterexample) is not None
    if reasons:
        return
    assert old.root is not None
    value = data.draw(struct_values(old.root))
    assert agrees(FORMAT.codec(old, new).decode(FORMAT.codec(old).encode(value)), value)


def agrees(read: Any, written: Any) -> bool:
    """Whether all that the reader still knows is what was written."""
    match read, written:
        case dict(), dict():
            pairs = [(key, other) for key in read for other in written if same(key, other)]
            return all(agrees(read[key], written[other]) for key, other in pairs)
        case list(), list():
            return len(read) == len(written) and all(map(agrees, read, written))
        case set(), set():
            return len(read) == len(written) and all(any(same(one, two) for two in written) for one in read)
    return same(read, written)


def same(read: Any, written: Any) -> bool:
    """Text stands for its bytes, and an enum's member for its number."""
    match read, written:
        case bytes(), str():
            return bool(read == written.encode())
        case (str() as name, int() as number) | (int() as number, str() as name):
            return name == (f"D{-number}" if number < 0 else f"C{number}")
    return bool(read == written)


simple = st.builds(
    Thrift,
    bodies(st.sampled_from((*BASES, "Part", "list<Part>", "map<string, i64>", "list<bool>", "set<i32>"))),
    bodies(st.sampled_from((*BASES, "list<binary>", "map<i16, double>")), 1),
    bodies(st.just("i32"), 1),
    st.just((0,)),
    st.sampled_from(("compact", "binary")),
)
_modules = itertools.count()


@pytest.fixture(scope="module")
def thriftpy2() -> Any:
    return pytest.importorskip("thriftpy2")


@settings(deadline=None, max_examples=50)
@given(document=simple, data=st.data())
def test_the_bytes_are_those_of_another_implementation(
    thriftpy2: Any, document: Thrift, data: st.DataObject
) -> None:
    text = FORMAT.parse(document.text).normalised(2)
    schema = FORMAT.parse(text)
    assert schema.root is not None
    value = data.draw(struct_values(schema.root))
    codec = FORMAT.codec(schema)
    module = load(thriftpy2, text)
    theirs = serialize(built(module, "Whole", value, schema), schema.protocol)
    assert codec.encode(value) == theirs
    assert codec.decode(theirs) == value


def load(thriftpy2: Any, text: str) -> Any:
    # It knows i8 only as byte, and no annotation with a dot in its name.
    text = text.replace("i8 ", "byte ").replace('(dragoman.protocol = "compact")', "")
    text = text.replace('(dragoman.protocol = "binary")', "")
    return thriftpy2.load_fp(io.StringIO(text), f"random{next(_modules)}_thrift")


def built(module: Any, name: str, value: dict[str, Any], schema: ThriftSchema) -> Any:
    struct = next(each for each in schema.document.structs() if each.name == name)
    made = getattr(module, name)()
    for field in struct.fields:
        given = value[field.name]
        if isinstance(given, dict) and field.written.name == "Part":
            given = built(module, "Part", given, schema)
        elif isinstance(given, list) and field.written.arguments[0].name == "Part":
            given = [built(module, "Part", each, schema) for each in given]
        elif isinstance(given, set):
            given = sorted(given)
        setattr(made, field.name, given)
    return made


def serialize(made: Any, protocol: Protocol) -> bytes:
    from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
    from thriftpy2.utils import serialize as dump

    factory = TCompactProtocolFactory() if protocol is Protocol.COMPACT else TBinaryProtocolFactory()
    data: bytes = dump(made, factory)
    return data
