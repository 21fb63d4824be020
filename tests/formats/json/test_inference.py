from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.json.strategies import anything

from dragoman.core.errors import DecodeError, InvalidSchema
from dragoman.formats.json import Guesses, JsonFormat, describe_schema, infer
from dragoman.schema.markers import Primitive
from dragoman.schema.types import ArrayType, EnumType, PrimitiveType, TimestampType, UnionType

FORMAT = JsonFormat()
ORDERS = [
    {
        "id": number,
        "at": f"2026-01-02T03:04:{number:02}Z",
        "state": ("NEW", "PAID")[number % 2],
        "note": None if number % 3 else "text",
        "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 1.5}],
        **({"gift": True} if number % 2 else {}),
    }
    for number in range(40)
]


def inferred(documents: list[Any], **guesses: Any) -> Any:
    return json.loads(infer(documents, guesses=Guesses(**guesses)))


def test_a_schema_is_proposed_for_what_was_seen() -> None:
    schema = inferred(ORDERS)
    properties = schema["properties"]
    assert schema["required"] == ["id", "at", "state", "note", "lines"]
    assert schema["additionalProperties"] is False
    assert properties["at"] == {"type": "string", "format": "date-time"}
    assert properties["state"] == {"type": "string", "enum": ["NEW", "PAID"]}
    assert properties["note"] == {"anyOf": [{"type": "null"}, {"type": "string"}]}
    assert properties["gift"] == {"type": "boolean"}
    assert properties["lines"]["items"]["properties"]["count"] == {"type": "number"}


def test_the_proposal_becomes_a_description_for_other_formats() -> None:
    described = describe_schema(FORMAT.parse(infer(ORDERS, name="shop.Order")))
    types = {each.name: each.type for each in described.fields}
    assert described.names.full == "shop.Order"
    assert types["id"] == PrimitiveType(Primitive.LONG)
    assert isinstance(types["at"], TimestampType)
    assert isinstance(types["state"], EnumType)
    assert isinstance(types["lines"], ArrayType)
    assert isinstance(types["gift"], UnionType)


def test_keys_that_vary_are_a_map() -> None:
    schema = inferred([{"by": {f"user-{number}": number}} for number in range(50)])
    by = schema["properties"]["by"]
    assert "properties" not in by
    assert by["additionalProperties"]["type"] == "integer"


def test_few_repeats_are_no_enumeration() -> None:
    assert inferred([{"a": "x"}, {"a": "y"}])["properties"]["a"] == {"type": "string"}
    assert inferred([{"a": "x"}, {"a": "y"}], enum_repeats=1)["properties"]["a"]["enum"] == ["x", "y"]


def test_payloads_may_be_given_as_bytes() -> None:
    assert json.loads(infer([b'{"a":1}']))["properties"]["a"]["type"] == "integer"
    with pytest.raises(DecodeError) as caught:
        infer([b"{}", b"{"])
    assert caught.value.where["number"] == 2


def test_nothing_cannot_be_inferred_from() -> None:
    with pytest.raises(InvalidSchema):
        infer([])


guesses = st.builds(
    Guesses,
    closed=st.booleans(),
    enum_repeats=st.integers(0, 2),
    map_keys=st.integers(0, 3),
    map_presence=st.sampled_from([0.2, 1.0]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(anything, min_size=1, max_size=6), guesses)
def test_every_message_is_valid_under_the_schema_inferred_from_it(
    documents: list[Any], guess: Guesses
) -> None:
    schema = FORMAT.parse(infer(documents, guesses=guess))
    assert [each for each in documents if not schema.validator.is_valid(each)] == []
