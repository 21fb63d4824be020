"""Which changes a reader survives, by the names of the rules."""

from __future__ import annotations

import json

import pytest

from dragoman.core.format import Policy
from dragoman.formats.protobuf import ProtobufFormat

FORMAT = ProtobufFormat()


def rules(old: str, new: str, policy: Policy = Policy.STRICT, syntax: str = "proto3") -> list[str]:
    """Why messages of the old file cannot be read with the new one."""
    head = f'syntax = "{syntax}"; '
    reasons = FORMAT.incompatibilities(FORMAT.parse(head + new), FORMAT.parse(head + old), policy)
    for reason in reasons:
        assert reason.message and reason.reader_path.startswith("#/") and reason.writer_path.startswith("#/")
        if reason.counterexample is not None:
            json.loads(reason.counterexample)
    return [reason.rule for reason in reasons]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("message A { int32 x = 1; }", "message A { int32 y = 1; string z = 2; }", []),
        ("message A { int32 x = 1; string y = 2; }", "message A { string y = 2; }", []),
        ("message A { int32 x = 1; }", "message A { int64 x = 1; }", []),
        ("message A { bool x = 1; }", "message A { uint32 x = 1; }", []),
        ("message A { string x = 1; }", "message A { bytes x = 1; }", []),
        ("message A { fixed32 x = 1; }", "message A { sfixed32 x = 1; }", []),
        ("message A { int32 x = 1; }", "message A { sint32 x = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message A { int32 x = 1; }", "message A { string x = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message A { float x = 1; }", "message A { double x = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message A { int32 x = 1; }", "message A { A x = 1; }", ["FIELD_KIND_CHANGED"]),
        ("message A { map<string, int32> x = 1; }", "message A { int32 x = 1; }", ["FIELD_KIND_CHANGED"]),
        (
            "message A { map<string, int32> x = 1; }",
            "message A { map<int32, int32> x = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        ("message A { int32 x = 1; }", "message A { E x = 1; } enum E { Z = 0; }", []),
        (
            "message A { B x = 1; } message B {} message C {}",
            "message A { C x = 1; } message B {} message C {}",
            ["FIELD_NAMED_TYPE_CHANGED"],
        ),
        ("package a; message A {}", "package b; message A {}", ["PACKAGE_CHANGED"]),
        ("message A {} message B {}", "message A {}", ["MESSAGE_REMOVED"]),
        ("message A {} message B {}", "message A { message B {} }", []),
        ("message A { enum E { X = 0; Y = 1; } E e = 1; }", "message A { enum E { X = 0; } E e = 1; }", []),
        (
            "message A { int32 x = 1; int32 y = 2; }",
            "message A { oneof o { int32 x = 1; } int32 y = 2; }",
            [],
        ),
        (
            "message A { int32 x = 1; int32 y = 2; }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (
            "message A { oneof o { int32 x = 1; } int32 y = 2; }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            "message A { oneof o { int32 x = 1; } oneof p { int32 y = 2; } }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        ("message A { oneof o { int32 x = 1; } }", "message A { oneof o { int32 x = 1; int32 y = 2; } }", []),
        (
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            "message A { oneof o { int32 x = 1; } }",
            ["ONEOF_FIELD_REMOVED"],
        ),
        ("message A { oneof o { int32 x = 1; int32 y = 2; } }", "message A { }", []),
        (
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            "message A { int32 x = 1; int32 y = 2; }",
            [],
        ),
        (
            "message A { optional int32 x = 1; }",
            "message A { repeated int32 x = 1; }",
            ["FIELD_NUMERIC_LABEL_CHANGED"],
        ),
        ("message A { optional string x = 1; }", "message A { repeated string x = 1; }", []),
        ("message A { int32 x = 1; }", "message A { repeated int32 x = 1; }", []),
    ],
)
def test_the_usual_rules(old: str, new: str, expected: list[str]) -> None:
    assert rules(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("message A { int32 x = 1; }", "message A { repeated int32 x = 1; }", "FIELD_LABEL_CHANGED"),
        ("message A { repeated A x = 1; }", "message A { A x = 1; }", "FIELD_LABEL_CHANGED"),
        ("message A { int64 x = 1; }", "message A { int32 x = 1; }", "FIELD_VALUES_NARROWED"),
        ("message A { int32 x = 1; }", "message A { uint32 x = 1; }", "FIELD_VALUES_NARROWED"),
        ("message A { int32 x = 1; }", "message A { bool x = 1; }", "FIELD_VALUES_NARROWED"),
        ("message A { bytes x = 1; }", "message A { string x = 1; }", "FIELD_VALUES_NARROWED"),
        (
            "message A { map<string, int64> x = 1; }",
            "message A { map<string, int32> x = 1; }",
            "FIELD_VALUES_NARROWED",
        ),
        (
            "message A { enum E { X = 0; Y = 1; } E e = 1; }",
            "message A { enum E { X = 0; } E e = 1; }",
            "ENUM_CONST_REMOVED",
        ),
        ("message A { reserved 2; }", "message A { int32 x = 2; }", "RESERVED_NUMBER_REUSED"),
        ('message A { reserved "x"; }', "message A { int32 x = 2; }", "RESERVED_NAME_REUSED"),
    ],
)
def test_the_exact_policy_sees_what_the_usual_rules_overlook(old: str, new: str, expected: str) -> None:
    assert rules(old, new) == []
    assert rules(old, new, Policy.EXACT) == [expected]


def test_a_field_removed_with_number_and_name_is_fine_in_both_directions() -> None:
    old, new = "message A { int32 x = 1; }", 'message A { reserved 1; reserved "x"; }'
    assert rules(old, new, Policy.EXACT) == rules(new, old, Policy.EXACT) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("message A {}", "message A { required int32 x = 1; }", ["REQUIRED_FIELD_ADDED"]),
        (
            "message A { optional string x = 1; }",
            "message A { required string x = 1; }",
            ["REQUIRED_FIELD_ADDED"],
        ),
        ("message A { required int32 x = 1; }", "message A {}", ["REQUIRED_FIELD_REMOVED"]),
        ("message A { required int32 x = 1; }", "message A { optional int32 x = 1; }", []),
        (
            "message A { optional int32 x = 1; }",
            "message A { repeated int32 x = 1; }",
            ["FIELD_NUMERIC_LABEL_CHANGED"],
        ),
    ],
)
def test_required_fields_of_proto2(old: str, new: str, expected: list[str]) -> None:
    assert rules(old, new, syntax="proto2") == expected


def test_the_lenient_policy_accepts_what_leaves_bytes_readable() -> None:
    assert rules("package a; message A {}", "package b; message A {}", Policy.LENIENT) == []
    assert rules("message A { int32 x = 1; }", "message A { string x = 1; }", Policy.LENIENT)


def test_types_are_compared_through_imports_and_recursion() -> None:
    text = 'syntax = "proto3"; import "b.proto"; message A { A next = 1; B b = 2; }'
    old, new = (
        FORMAT.parse(text, {"b.proto": FORMAT.parse(f'syntax = "proto3"; message B {{ {type} x = 1; }}')})
        for type in ("int32", "string")
    )
    (reason,) = FORMAT.incompatibilities(new, old)
    assert (reason.rule, reason.writer_path) == ("FIELD_SCALAR_KIND_CHANGED", "#/B/1")
    assert reason.counterexample == '{"x": 1}'


def test_a_message_that_requires_itself_has_no_counterexample_but_a_reason() -> None:
    fields = " ".join(f"required A a{n} = {n};" for n in range(1, 30))
    old, new = (
        FORMAT.parse(f"message A {{ {fields} optional {kind} x = 50; }}") for kind in ("int32", "string")
    )
    (reason,) = FORMAT.incompatibilities(new, old)
    assert (reason.rule, reason.counterexample) == ("FIELD_SCALAR_KIND_CHANGED", None)
