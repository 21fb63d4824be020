"""Conditions on messages: what they select, and that nothing foreign can be run by them."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Message, record
from dragoman.client.condition import read_condition
from dragoman.core.errors import ConfigurationError


class Level(Enum):
    LOW = "LOW"
    HIGH = "HIGH"


@record
class Customer:
    name: str
    region: str | None


@record
class Order:
    amount: float
    level: Level
    customer: Customer
    tags: list[str]


ORDER = Order(1500.0, Level.HIGH, Customer("Ada", None), ["gift", "express"])
MESSAGE = Message("orders", b"", b"k-7", (("region", b"eu"), ("size", b"12"), ("x-source", b"web")))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("payload.amount > 1000", True),
        ("payload.amount > 1000 and payload.amount < 1200", False),
        ("1000 < payload.amount <= 1500", True),
        ("payload.level == 'HIGH'", True),
        ("payload.customer.name in ['Ada', 'Grace']", True),
        ("payload.customer.region is None", True),
        ("payload.customer.region > 3", False),
        ("payload.nothing.there == 1", False),
        ("not payload.nothing", True),
        ("'gift' in payload.tags", True),
        ("payload.tags[0] == 'gift'", True),
        ("payload.tags[9] == 'gift'", False),
        ("header.region == 'eu' or payload.amount < 0", True),
        ("header['x-source'] != 'web'", False),
        ("header.size >= 10", True),
        ("header.region >= 10", False),
        ("header.missing is None", True),
        ("key == 'k-7'", True),
        ("payload.amount == -1", False),
    ],
)
def test_a_condition_is_met_or_not(text: str, met: bool) -> None:
    assert read_condition(text).meets(MESSAGE, ORDER) is met


def test_plain_payloads_are_looked_into_as_well() -> None:
    assert read_condition("payload.a.b == 1 and payload['a']['c'] == [2]").meets(
        MESSAGE, {"a": {"b": 1, "c": [2]}}
    )


def test_headers_and_key_are_looked_at_before_the_payload() -> None:
    condition = read_condition("header.region == 'eu' and payload.amount > 1 and key != 'x'")
    assert condition.early is not None
    assert condition.late is not None
    assert condition.early(MESSAGE, None)
    assert not condition.early(MESSAGE._replace(headers=()), None)
    assert read_condition("header.region == 'eu'").late is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "payload.amount >",
        "amount > 1",
        "open('/etc/passwd')",
        "payload.__class__ == 1",
        "payload.amount.__add__(1)",
        "(lambda: 1)()",
        "[x for x in payload]",
        "payload[payload]",
        "header",
        "key.upper",
        "f'{payload}' == ''",
        "1 if payload else 2",
        "(" * 300 + "1" + ")" * 300,
        "payload.a == 1 " * 1000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_condition(text)
    assert caught.value.code == "configuration.condition"


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | numbers | st.text(max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), values), st.sampled_from("abc"), values)
def test_equality_is_that_of_the_values(payload: dict[str, Any], field: str, value: Any) -> None:
    condition = read_condition(f"payload.{field} == {value!r}")
    assert condition.meets(MESSAGE, payload) is bool(payload.get(field) == value)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        condition = read_condition(text)
    except ConfigurationError:
        return
    assert condition.meets(MESSAGE, {}) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 900 + "1 < payload.amount",
        "payload.amount > " + "-" * 900 + "1",
        "not " * 900 + "key",
        "~" * 900 + "1 < payload.amount",
        "[" * 150 + "1" + "]" * 150 + " == payload.tags",
        "not (" * 150 + "key" + ")" * 150,
        "(" * 900 + "key" + ")" * 900,
        "payload" + ".a" * 900 + " == 1",
        "payload" + "[0]" * 900 + " == 1",
        "(key and " * 150 + "key" + ")" * 150,
        "1 + " * 900 + "1 < payload.amount",
        "lambda: " * 400 + "key",
    ],
    ids=lambda text: text[:12],
)
def test_a_condition_that_is_nested_deeply_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_condition(text)
    assert refused.value.code == "configuration.condition"
    assert len(str(refused.value)) < 2500


def test_a_long_flat_condition_is_read() -> None:
    condition = read_condition(" or ".join(["payload.amount == 3"] * 150 + ["payload.amount > 1"]))
    assert condition.meets(MESSAGE, ORDER)
    assert read_condition("not " * 90 + "(payload.amount > 1)").meets(MESSAGE, ORDER)
