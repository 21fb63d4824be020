"""Which changes a reader survives, by the names of the rules."""

from __future__ import annotations

import json

import pytest

from dragoman.core.format import Policy
from dragoman.formats.thrift import ThriftFormat

FORMAT = ThriftFormat()


def rules(old: str, new: str, policy: Policy = Policy.STRICT) -> list[str]:
    """Why messages of the old document cannot be read with the new one."""
    reasons = FORMAT.incompatibilities(FORMAT.parse(new), FORMAT.parse(old), policy)
    for reason in reasons:
        assert reason.message and reason.reader_path.startswith("#/") and reason.writer_path.startswith("#/")
        if reason.counterexample is not None:
            json.loads(reason.counterexample)
    return [reason.rule for reason in reasons]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("struct A { 1: i32 x }", "struct A { 1: i32 x, 2: string y, 3: optional i32 z }", []),
        ("struct A { 1: i32 x, 2: i32 y }", "struct A { 2: i32 y }", []),
        ("struct A { 1: i32 x }", "struct A { 1: i64 x }", ["FIELD_TYPE_CHANGED"]),
        ("struct A { 1: i8 x }", "struct A { 1: byte x }", []),
        ("struct A { 1: list<i32> x }", "struct A { 1: set<i32> x }", ["FIELD_TYPE_CHANGED"]),
        ("struct A { 1: list<i32> x }", "struct A { 1: list<i64> x }", ["FIELD_TYPE_CHANGED"]),
        ("struct A { 1: map<i32, i32> x }", "struct A { 1: map<i32, string> x }", ["FIELD_TYPE_CHANGED"]),
        ("struct A { 1: string x }", "struct A { 1: binary x }", []),
        ("struct A { 1: binary x }", "struct A { 1: string x }", ["FIELD_VALUES_NARROWED"]),
        ("enum E { X } struct A { 1: E x }", "struct A { 1: i32 x }", []),
        ("struct A { 1: i32 x }", "enum E { X } struct A { 1: E x }", []),
        ("enum E { X, Y } struct A { 1: E x }", "enum E { X } struct A { 1: E x }", ["ENUM_VALUE_REMOVED"]),
        ("enum E { X } struct A { 1: E x }", "enum E { X, Y } struct A { 1: E x }", []),
        ("typedef i32 T struct A { 1: T x }", "struct A { 1: i32 x }", []),
        ("struct A { 1: i32 x }", "struct A { 1: i32 x, 2: required i32 y }", ["REQUIRED_FIELD_ADDED"]),
        ("struct A { 1: i32 x }", "struct A { 1: i32 x, 2: required i32 y = 5 }", []),
        ("struct A { 1: i32 x }", "struct A { 1: required i32 x }", ["REQUIRED_FIELD_ADDED"]),
        ("struct A { 1: required i32 x }", "struct A { 1: optional i32 x }", []),
        ("struct A { 1: required i32 x }", "struct A {}", []),
        ("struct A { 1: i32 x }", "struct A { 1: i32 y }", ["FIELD_ID_REUSED"]),
        ("struct A { 1: i32 x }", 'struct A { 1: i32 y (dragoman.was = "x") }', []),
        ('struct A { 1: i32 y (dragoman.was = "x") }', "struct A { 1: i32 x }", []),
        ("struct A { 1: i32 x }", "struct A { 1: string y }", ["FIELD_ID_REUSED", "FIELD_TYPE_CHANGED"]),
        ('struct A {} (dragoman.reserved = "1 x")', "struct A { 1: i32 y }", ["FIELD_ID_REUSED"]),
        ('struct A {} (dragoman.reserved = "1 x")', "struct A { 1: i32 x }", []),
        ("struct A { 1: i32 x }", 'struct A {} (dragoman.reserved = "1 x")', []),
        ("struct A {}", "struct A {} struct B {}", ["ROOT_CHANGED"]),
        ("struct A {}", 'struct A {} (dragoman.root = "1") struct B {}', []),
        ("struct A {}", 'struct A {} (dragoman.protocol = "binary")', ["PROTOCOL_CHANGED"]),
        ("struct A { 1: i32 x }", "union A { 1: i32 x }", ["STRUCT_KIND_CHANGED"]),
        ("union A { 1: i32 x }", "struct A { 1: i32 x }", []),
        ("union A { 1: i32 x, 2: i32 y }", "union A { 1: i32 x }", ["UNION_FIELD_REMOVED"]),
        ("union A { 1: i32 x }", "union A { 1: i32 x, 2: i32 y }", []),
        (
            "struct B { 1: i32 x } struct A { 1: list<map<string, B>> b }",
            "struct B { 1: i64 x } struct A { 1: list<map<string, B>> b }",
            ["FIELD_TYPE_CHANGED"],
        ),
        ("struct B { 1: i32 x } struct A {}", "struct B { 1: i64 x } struct A {}", []),
    ],
)
def test_the_rules(old: str, new: str, expected: list[str]) -> None:
    assert rules(old, new) == expected


def test_the_exact_policy_sees_more_and_the_lenient_one_less() -> None:
    number, enum = "struct A { 1: i32 x }", "enum E { X } struct A { 1: E x }"
    assert rules(number, enum, Policy.EXACT) == ["FIELD_VALUES_NARROWED"]
    assert rules('struct A {} (dragoman.reserved = "1")', number, Policy.EXACT) == ["FIELD_ID_REUSED"]
    assert rules("struct A { 1: i32 x }", "struct A { 1: i32 y }", Policy.LENIENT) == []
    assert rules("struct A { 1: i32 x }", "struct A { 1: string x }", Policy.LENIENT) == [
        "FIELD_TYPE_CHANGED"
    ]


def test_a_struct_that_contains_itself_is_compared_once() -> None:
    old = "struct A { 1: optional A next, 2: i32 x }"
    assert rules(old, old) == []
    assert rules(old, old.replace("i32", "i64")) == ["FIELD_TYPE_CHANGED"]


def test_types_are_compared_through_includes() -> None:
    text = 'include "b.thrift" struct A { 1: b.B b }'
    old, new = (
        FORMAT.parse(text, {"b.thrift": FORMAT.parse(f"struct B {{ 1: {type} x }}")})
        for type in ("i32", "string")
    )
    (reason,) = FORMAT.incompatibilities(new, old)
    assert (reason.rule, reason.writer_path) == ("FIELD_TYPE_CHANGED", "#/B/1")
    assert reason.counterexample == '{"x": 1}'
    assert old.fingerprint != new.fingerprint
