from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.json.strategies import anything

from dragoman.core.errors import (
    ConstraintViolated,
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    MessageError,
)
from dragoman.core.format import Codec
from dragoman.formats.json import JsonFormat

FORMAT = JsonFormat()
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def codec(writer: Any, reader: Any = None) -> Codec:
    return FORMAT.codec(
        FORMAT.parse(json.dumps(writer)), None if reader is None else FORMAT.parse(json.dumps(reader))
    )


def test_a_valid_value_comes_back() -> None:
    order = codec(ORDER)
    value = {"id": 2**80, "amount": 1.5, "tags": ["a", "b"]}
    assert order.decode(order.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "error", "pointer"),
    [
        ({"amount": 1}, "encode", "/"),
        ({"id": "1"}, "encode", "/id"),
        ({"id": 1, "more": 1}, "encode", "/"),
        ({"id": 1, "amount": -1}, "constraint", "/amount"),
        ({"id": 1, "tags": ["a", "1"]}, "constraint", "/tags/1"),
    ],
)
def test_an_invalid_value_is_refused_with_its_place(value: Any, error: str, pointer: str) -> None:
    order = codec(ORDER)
    with pytest.raises(MessageError) as caught:
        order.encode(value)
    assert isinstance(caught.value, EncodeError if error == "encode" else ConstraintViolated)
    assert caught.value.where["pointer"] == pointer
    with pytest.raises(MessageError) as caught:
        order.decode(json.dumps(value).encode())
    assert isinstance(caught.value, DecodeError if error == "encode" else ConstraintViolated)


def test_an_error_does_not_show_the_payload() -> None:
    with pytest.raises(DecodeError) as caught:
        codec({"type": "object", "properties": {"a": {"type": "integer"}}}).decode(b'{"a":"secret"}')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [None, -float("inf")], {"a": float("nan")}])
def test_numbers_that_json_lacks_are_refused(value: Any) -> None:
    with pytest.raises(EncodeError):
        codec({}).encode(value)


@pytest.mark.parametrize("value", [object(), {1: 2}, [object()], b"bytes", "\ud800", {"\ud800": 1}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(EncodeError):
        codec({}).encode(value)


def test_depth_is_refused_and_not_survived_by_luck() -> None:
    tree = codec({"items": {"$ref": "#"}})
    value: list[Any] = []
    for _ in range(50_000):
        value = [value]
    with pytest.raises(EncodeError):
        tree.encode(value)
    while value:
        value = value.pop()
    with pytest.raises(DecodeError):
        tree.decode(b"[" * 50_000 + b"]" * 50_000)


@pytest.mark.parametrize("payload", [b"", b"{", b"NaN", b"[1e999]", b'"\xff"', b"{}x", b"'a'"])
def test_a_malformed_payload_is_a_decode_error(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        codec({}).decode(payload)


def test_of_a_key_written_twice_the_last_one_counts() -> None:
    assert codec({}).decode(b'{"a":1,"a":2}') == {"a": 2}


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=40), anything.map(lambda value: json.dumps(value).encode())))
def test_decoding_any_bytes_gives_a_valid_value_or_one_of_two_errors(payload: bytes) -> None:
    order = codec(ORDER)
    try:
        value = order.decode(payload)
    except (DecodeError, ConstraintViolated):
        return
    assert FORMAT.parse(json.dumps(ORDER)).validator.is_valid(value)


@settings(max_examples=100, deadline=None)
@given(anything)
def test_any_json_value_comes_back(value: Any) -> None:
    free = codec({})
    assert free.decode(free.encode(value)) == value


def test_a_reader_fills_in_the_defaults_of_what_is_missing() -> None:
    old = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
    new = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "kind": {"type": "string", "default": "plain"},
            "at": {"$ref": "#/definitions/at"},
            "parts": {"type": "array", "items": {"properties": {"n": {"default": [1]}}}},
        },
        "required": ["kind"],
        "definitions": {"at": {"type": "object", "properties": {"zone": {"default": "UTC"}}, "default": {}}},
    }
    resolved = codec(old, new)
    assert resolved.decode(b'{"id":1}') == {"id": 1, "kind": "plain", "at": {"zone": "UTC"}}
    assert resolved.decode(b'{"kind":"x","at":{"zone":"CET"},"parts":[{},{"n":2}]}') == {
        "kind": "x",
        "at": {"zone": "CET"},
        "parts": [{"n": [1]}, {"n": 2}],
    }
    first, second = resolved.decode(b'{"parts":[{},{}]}')["parts"]
    first["n"].append(2)
    assert second == {"n": [1]}


def test_without_a_reader_documents_are_left_as_they_are() -> None:
    assert codec({"properties": {"a": {"default": 1}}}).decode(b"{}") == {}


def test_a_reader_validates_by_its_own_schema() -> None:
    with pytest.raises(DecodeError):
        codec({"properties": {"a": {}}}, {"properties": {"a": {"type": "string"}}}).decode(b'{"a":1}')


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ({"type": "string"}, {"type": "object"}),
        ({"enum": ["a"]}, {"enum": ["b"]}),
        (ORDER, {**ORDER, "properties": {"id": {"type": "string"}}}),
    ],
)
def test_schemas_without_a_document_in_common_are_refused_at_once(writer: Any, reader: Any) -> None:
    with pytest.raises(IncompatibleSchema):
        codec(writer, reader)
