"""What holds for every schema and every message."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.protobuf.strategies import Proto, pairs, protos, values

from dragoman.core.errors import DecodeError, IncompatibleSchema, InvalidSchema, MessageError
from dragoman.core.format import Policy
from dragoman.formats.protobuf import ProtobufFormat
from dragoman.formats.protobuf.classes import record_class
from dragoman.formats.protobuf.indexes import decode_indexes, encode_indexes

FORMAT = ProtobufFormat()
SETTINGS = settings(deadline=None, max_examples=100)


@SETTINGS
@given(protos)
def test_printing_and_parsing_give_the_same_schema(proto: Proto) -> None:
    schema = FORMAT.parse(proto.text)
    assert FORMAT.parse(schema.normalised(1)) == schema
    ordered = schema.normalised(2)
    assert FORMAT.parse(ordered).normalised(2) == ordered
    assert FORMAT.parse(ordered).fingerprint == schema.fingerprint
    assert FORMAT.parse(schema.serialized()) == schema
    assert not FORMAT.incompatibilities(schema, FORMAT.parse(ordered), Policy.EXACT)


@SETTINGS
@given(protos, st.data())
def test_what_is_encoded_is_decoded_again(proto: Proto, data: st.DataObject) -> None:
    schema = FORMAT.parse(proto.text)
    codec = FORMAT.codec(schema)
    value = data.draw(values(schema.messages[(0,)]))
    payload = codec.encode(value)
    assert codec.decode(payload) == value
    assert codec.encode(codec.decode(payload)) == payload


@SETTINGS
@given(protos, st.data())
def test_the_classes_of_a_schema_hold_its_messages(proto: Proto, data: st.DataObject) -> None:
    schema = FORMAT.parse(proto.text)
    try:
        cls = record_class(schema)
    except InvalidSchema as error:
        assert "keys" in str(error)
        return
    codec = FORMAT.codec(schema, cls=cls)
    payload = FORMAT.codec(schema).encode(data.draw(values(schema.messages[(0,)])))
    assert codec.encode(codec.decode(payload)) == payload


@SETTINGS
@given(protos, st.data())
def test_damaged_bytes_are_message_errors_and_nothing_else(proto: Proto, data: st.DataObject) -> None:
    schema = FORMAT.parse(proto.text)
    codec = FORMAT.codec(schema)
    payload = bytearray(codec.encode(data.draw(values(schema.messages[(0,)]))))
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        payload[at % len(payload)] = byte
    for damaged in (bytes(payload), bytes(payload[: len(payload) // 2]), data.draw(st.binary(max_size=30))):
        try:
            codec.decode(damaged)
        except MessageError as error:
            assert isinstance(error, DecodeError)


@settings(deadline=None, max_examples=200)
@given(pairs, st.data())
def test_schemas_judged_exactly_compatible_read_each_old_value(
    pair: tuple[Proto, Proto], data: st.DataObject
) -> None:
    old, new = (FORMAT.parse(each.text) for each in pair)
    reasons = FORMAT.incompatibilities(new, old, Policy.EXACT)
    for reason in reasons:
        assert reason.counterexample is None or json.loads(reason.counterexample) is not None
    if reasons:
        return
    value = data.draw(values(old.messages[(0,)]))
    read = FORMAT.codec(old, new).decode(FORMAT.codec(old).encode(value))
    assert agrees(read, value)


@settings(deadline=None, max_examples=200)
@given(pairs, st.data())
def test_schemas_judged_compatible_read_old_messages(pair: tuple[Proto, Proto], data: st.DataObject) -> None:
    old, new = (FORMAT.parse(each.text) for each in pair)
    if FORMAT.incompatibilities(new, old, Policy.STRICT):
        return
    exact = {reason.rule for reason in FORMAT.incompatibilities(new, old, Policy.EXACT)}
    value = data.draw(values(old.messages[(0,)]))
    try:
        FORMAT.codec(old, new).decode(FORMAT.codec(old).encode(value))
    except DecodeError:
        # Bytes that became a string may not be UTF-8; the usual checkers allow that, the exact one does not.
        assert "FIELD_VALUES_NARROWED" in exact


def agrees(read: Any, written: Any) -> bool:
    """Whether all that the reader still knows is what was written; renamed numbers count as equal."""
    if isinstance(read, dict) and isinstance(written, dict):
        return all(agrees(read[name], written[name]) for name in read if name in written)
    if isinstance(read, list) and isinstance(written, list):
        return len(read) == len(written) and all(map(agrees, read, written))
    if isinstance(read, bytes) and isinstance(written, str):
        return read == written.encode()
    if isinstance(written, str) and isinstance(read, int):
        return written == f"C{read}"
    if read is None or written is None:
        return all(not each or each == "C0" for each in (read, written))
    return bool(read == written)


@SETTINGS
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6).map(tuple), st.binary(max_size=4))
def test_message_indexes_survive(indexes: tuple[int, ...], rest: bytes) -> None:
    packed = encode_indexes(indexes)
    assert decode_indexes(packed + rest) == (indexes, len(packed))


def test_a_codec_between_unrelated_schemas_is_refused() -> None:
    one = FORMAT.parse('syntax = "proto3"; message A { int32 x = 1; }')
    two = FORMAT.parse('syntax = "proto3"; message A { string x = 1; }')
    try:
        FORMAT.codec(one, two)
    except IncompatibleSchema as error:
        assert error.where["rule"] == "FIELD_SCALAR_KIND_CHANGED"
    else:
        raise AssertionError("int32 was read as string")
