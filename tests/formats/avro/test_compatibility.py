"""Each rule of schema resolution, told apart and shown by an example."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import IncompatibleSchema
from dragoman.core.format import Policy
from dragoman.formats.avro import AvroFormat

avro = AvroFormat()


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def tree(leaf: Any) -> dict[str, Any]:
    return record(field("next", ["null", "R"]), field("leaf", leaf))


def check(reader: Any, writer: Any, policy: Policy = Policy.STRICT) -> tuple[Incompatibility, ...]:
    reasons = avro.incompatibilities(avro.parse(json.dumps(reader)), avro.parse(json.dumps(writer)), policy)
    return tuple(reasons)


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("long", "int"),
        ("float", "int"),
        ("double", "int"),
        ("float", "long"),
        ("double", "long"),
        ("double", "float"),
        ("bytes", "string"),
        ("string", "bytes"),
        (["null", "string"], "string"),
        ("string", ["string"]),
        (["null", "long"], ["int", "null"]),
        (enum("A", "B"), enum("A")),
        (enum("A", default="A"), enum("A", "B")),
        (record(field("a", "int", default=1)), record()),
        (record(), record(field("a", "int"))),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int"))),
        (record(name="New", namespace="n", aliases=["R"]), record(namespace="n")),
        (record(name="New", namespace="n", aliases=["m.R"]), record(namespace="m")),
        (record(namespace="one"), record(namespace="two")),
        (fixed(4, name="G", aliases=["F"]), fixed(4)),
        (tree("long"), tree("int")),
        (MICROS, MILLIS),
    ],
)
def test_these_can_be_read(reader: Any, writer: Any) -> None:
    assert check(reader, writer) == ()
    avro.codec(avro.parse(json.dumps(writer)), avro.parse(json.dumps(reader)))


@pytest.mark.parametrize(
    ("reader", "writer", "rule", "reader_path", "writer_path", "example"),
    [
        ("int", "long", "TYPE_MISMATCH", "", "", 0),
        ("int", "string", "TYPE_MISMATCH", "", "", ""),
        ("float", "double", "TYPE_MISMATCH", "", "", 0.0),
        (array("int"), array("string"), "TYPE_MISMATCH", "/items", "/items", [""]),
        (
            {"type": "map", "values": "int"},
            {"type": "map", "values": "string"},
            "TYPE_MISMATCH",
            "/values",
            "/values",
            {"key": ""},
        ),
        (record(name="A"), record(name="B"), "NAME_MISMATCH", "/name", "/name", {}),
        (
            record(name="New", namespace="n", aliases=["R"]),
            record(namespace="m"),
            "NAME_MISMATCH",
            "/name",
            "/name",
            {},
        ),
        (fixed(4), fixed(5), "FIXED_SIZE_MISMATCH", "/size", "/size", "\0" * 5),
        (enum("A"), enum("A", "B", "C"), "MISSING_ENUM_SYMBOLS", "/symbols", "/symbols", "B"),
        (
            record(field("a", "int"), field("b", "int")),
            record(field("a", "int")),
            "READER_FIELD_MISSING_DEFAULT_VALUE",
            "/fields/1",
            "/fields",
            {"a": 0},
        ),
        ("string", ["null", "string"], "TYPE_MISMATCH", "", "/0", None),
        (["null", "int"], ["null", "string"], "MISSING_UNION_BRANCH", "", "/1", {"string": ""}),
        (["null", "int"], "string", "MISSING_UNION_BRANCH", "", "", ""),
        (
            record(field("x", "int"), field("e", array(["null", enum("A")]))),
            record(field("x", "int"), field("e", array(["null", enum("A", "B")]))),
            "MISSING_UNION_BRANCH",
            "/fields/1/type/items",
            "/fields/1/type/items/1",
            {"x": 0, "e": [{"E": "A"}]},
        ),
        (
            tree("int"),
            tree("string"),
            "TYPE_MISMATCH",
            "/fields/1/type",
            "/fields/1/type",
            {"next": None, "leaf": ""},
        ),
    ],
)
def test_a_reason_has_rule_places_and_an_example(
    reader: Any, writer: Any, rule: str, reader_path: str, writer_path: str, example: Any
) -> None:
    (reason,) = check(reader, writer)
    assert (reason.rule, reason.reader_path, reason.writer_path) == (rule, reader_path, writer_path)
    assert reason.message.endswith(".")
    assert reason.counterexample is not None
    assert json.loads(reason.counterexample) == example
    with pytest.raises(IncompatibleSchema):
        avro.codec(avro.parse(json.dumps(writer)), avro.parse(json.dumps(reader)))


def test_an_example_is_a_message_that_the_writer_may_write() -> None:
    writer = record(
        field("maybe", ["null", array(record(field("e", enum("A", "B")), name="Inner"))]),
        field("self", ["null", "R"]),
        field("map", {"type": "map", "values": fixed(2)}),
    )
    reader = json.loads(json.dumps(writer).replace('["A", "B"]', '["A"]'))
    reasons = check(reader, writer)
    assert [reason.rule for reason in reasons] == ["MISSING_UNION_BRANCH"]
    example = reasons[0].counterexample
    assert example is not None
    (message,) = fastavro.json_reader(io.StringIO(example), fastavro.parse_schema(writer))
    assert message["self"] is None


def test_a_record_without_end_has_no_example() -> None:
    writer = record(field("a", "int"), field("again", "R"))
    reader = record(field("a", "string"), field("again", "R"))
    (reason,) = check(reader, writer)
    assert reason.counterexample is None


def test_all_reasons_are_told_each_once() -> None:
    shared = record(field("x", "string"), name="Shared")
    changed = record(field("x", "int"), name="Shared")
    writer = record(field("a", shared), field("b", "Shared"), field("c", "long"))
    reader = record(field("a", changed), field("b", "Shared"), field("c", "int"), field("d", "int"))
    assert sorted(reason.rule for reason in check(reader, writer)) == [
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "TYPE_MISMATCH",
        "TYPE_MISMATCH",
    ]


def test_what_rested_on_a_wrong_assumption_is_looked_at_again() -> None:
    """In the first branch B looks good only as long as A is taken to be; A is not, so B is not either."""
    b_writer = record(field("a", ["null", "A"]), name="B")
    a_writer = record(field("b", b_writer), field("x", "string"), name="A")
    writer = record(field("first", a_writer), field("second", "B"))
    b_reader = record(field("a", ["null", "A"]), name="B")
    a_reader = record(field("b", b_reader), field("x", "int"), name="A")
    loose = record(field("y", "int", default=0), name="Other", aliases=["A"])
    reader = record(field("first", [a_reader, loose]), field("second", "B"))
    (reason,) = check(reader, writer)
    assert reason.rule == "MISSING_UNION_BRANCH"
    assert reason.reader_path == "/fields/0/type/0/fields/0/type/fields/0/type"


def test_shared_types_do_not_multiply_the_work() -> None:
    """Forty levels, each using the next one twice: a million million ways, forty types."""

    def schema(leaf: str) -> Any:
        inner: Any = record(field("leaf", leaf), name="L0")
        for level in range(1, 41):
            inner = record(field("a", inner), field("b", f"L{level - 1}"), name=f"L{level}")
        return inner

    assert check(schema("long"), schema("int")) == ()
    avro.codec(avro.parse(json.dumps(schema("int"))), avro.parse(json.dumps(schema("long"))))
    (reason,) = check(schema("int"), schema("string"))
    assert reason.counterexample is None


def test_the_exact_policy_also_compares_what_values_mean() -> None:
    def decimal(precision: int) -> dict[str, Any]:
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}

    assert check(decimal(10), decimal(4)) == ()
    (reason,) = check(decimal(10), decimal(4), Policy.EXACT)
    assert reason.rule == "LOGICAL_TYPE_MISMATCH"
    assert check(decimal(4), decimal(4), Policy.EXACT) == ()
    assert reason.message == "The writer's decimal(4, 2) is not the reader's decimal(10, 2)."
    (reason,) = check("long", MILLIS, Policy.EXACT)
    assert reason.message == "The writer's timestamp-millis is not the reader's plain long."
    (reason,) = check(MILLIS, "long", Policy.EXACT)
    assert reason.message == "The writer's plain long is not the reader's timestamp-millis."


DAY = {"type": "int", "logicalType": "date"}
CLOCK = {"type": "int", "logicalType": "time-millis"}
FINE_CLOCK = {"type": "long", "logicalType": "time-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (DAY, CLOCK),
        (CLOCK, DAY),
        (DAY, FINE_CLOCK),
        (DAY, MILLIS),
        (CLOCK, MICROS),
        (CLOCK, LOCAL),
        (FINE_CLOCK, MILLIS),
        (MILLIS, FINE_CLOCK),
        (LOCAL, FINE_CLOCK),
    ],
    ids=lambda type: type["logicalType"],
)
def test_a_day_a_time_of_day_and_a_moment_are_not_read_as_one_another(writer: Any, reader: Any) -> None:
    (reason,) = check(reader, writer)
    assert reason.rule == "LOGICAL_TYPE_MISMATCH"
    assert check(["null", reader], ["null", writer]) != ()
    assert check(reader, writer, Policy.LENIENT) == ()
    schemas = [avro.parse(json.dumps(record(field("a", each)))) for each in (writer, reader)]
    with pytest.raises(IncompatibleSchema, match="is not the reader's"):
        avro.codec(*schemas)
    assert check(writer["type"], writer) == check(reader, "int") == ()


@pytest.mark.parametrize(
    ("writer", "reader"), [(CLOCK, FINE_CLOCK), (MILLIS, MICROS), (MICROS, MILLIS), (MILLIS, LOCAL)]
)
def test_a_time_in_another_unit_is_read(writer: Any, reader: Any) -> None:
    assert check(reader, writer) == ()


def test_a_name_counts_more_than_an_alias() -> None:
    writer = record(field("a", "int"))
    reader = record(field("b", "int", aliases=["a"], default=5), field("a", "int"))
    codec = avro.codec(avro.parse(json.dumps(writer)), avro.parse(json.dumps(reader)))
    assert codec.decode(b"\x02") == {"a": 1, "b": 5}
    (reason,) = check(record(field("b", "int", aliases=["a"]), field("a", "int")), writer)
    assert reason.rule == "READER_FIELD_MISSING_DEFAULT_VALUE"
