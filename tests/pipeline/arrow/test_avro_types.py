"""Types without one obvious column, options for them, defaults and constraints."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.pipeline.arrow.avro_cases import schema_text, written

from dragoman.core.errors import ConfigurationError
from dragoman.formats.avro.jsontext import dumps
from dragoman.pipeline.arrow import Decoded, Decoder, Mapping, Reason, SchemaText
from dragoman.pipeline.arrow.avro.format import AvroColumns
from dragoman.schema.framing import frame


def record(*fields: tuple[Any, ...]) -> dict[str, Any]:
    listed = [{"name": f[0], "type": f[1]} | ({"default": f[2]} if len(f) > 2 else {}) for f in fields]
    return {"type": "record", "name": "R", "fields": listed}


def decoded(writer: Any, rows: list[Any], reader: Any = None, mapping: Mapping | None = None) -> Decoded:
    frames = pa.array([written(writer, row, 1) for row in rows], pa.binary())
    lookup = {1: schema_text(writer)}.__getitem__
    return Decoder(schema_text(reader or writer), lookup, mapping).decode(frames)


TREE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"], "default": None}],
}
CHAIN = {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}


def chained(row: Any, mapping: Mapping) -> Decoded:
    return Decoder(schema_text(TREE), {1: schema_text(TREE)}.__getitem__, mapping).decode(
        pa.array([chain_frame(row)], pa.binary())
    )


def chain_frame(row: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(TREE))), row)
    return frame(1, out.getvalue())


def test_a_recursive_type_is_refused_unless_told_otherwise() -> None:
    with pytest.raises(ConfigurationError, match=r"contains itself.*recursion to variant or json"):
        chained(CHAIN, Mapping())


def test_a_recursive_type_may_be_json_text() -> None:
    found = chained(CHAIN, Mapping(recursion="json"))

    row = found.values[0].as_py()
    assert row["value"] == 1
    assert json.loads(row["next"]) == {"value": 2, "next": {"value": 3, "next": None}}


def test_a_chain_too_deep_to_read_is_rejected() -> None:
    row = chain_frame(CHAIN)
    hostile = row[:-1] + b"\x02\x02" * 20_000 + b"\0"
    reader = Decoder(schema_text(TREE), {1: schema_text(TREE)}.__getitem__, Mapping(recursion="json"))

    found = reader.decode(pa.array([row, hostile], pa.binary()))

    assert {at: each.code for at, each in found.rejections.items()} == {1: Reason.DEPTH}


def test_a_union_is_a_struct_with_a_member_per_branch() -> None:
    schema = record(("u", ["null", "int", "long", "string", {"type": "array", "items": "int"}]))

    found = decoded(schema, [{"u": (0, None)}, {"u": (1, 5)}, {"u": (2, 6)}, {"u": (4, [7])}])

    empty = {"int": None, "long": None, "string": None, "array": None}
    assert [row["u"] for row in found.values.to_pylist()] == [
        None,
        empty | {"int": 5},
        empty | {"long": 6},
        empty | {"array": [7]},
    ]


def test_a_union_may_be_json_text() -> None:
    schema = record(("u", ["null", "long", "string"]))

    found = decoded(
        schema, [{"u": (0, None)}, {"u": (1, 5)}, {"u": (2, "x")}], mapping=Mapping(unions="json")
    )

    assert found.values.field("u").to_pylist() == [None, "5", '"x"']


def test_a_union_may_lose_a_branch_and_only_its_rows_are_rejected() -> None:
    writer, reader = record(("u", ["long", "string"])), record(("u", "double"))

    found = decoded(writer, [{"u": (0, 5)}, {"u": (1, "x")}], reader)

    assert found.values.to_pylist() == [{"u": 5.0}, None]
    assert (found.rejections[1].code, found.rejections[1].path) == (Reason.UNION, "u")


def test_null_for_a_field_that_became_required_is_rejected() -> None:
    found = decoded(record(("a", ["null", "int"])), [{"a": (1, 5)}, {"a": (0, None)}], record(("a", "int")))

    assert found.values.to_pylist() == [{"a": 5}, None]
    assert found.rejections[1].code == Reason.NULL


def test_defaults_of_bytes_are_the_bytes_that_their_characters_stand_for() -> None:
    reader = record(
        ("a", "int"),
        ("b", "bytes", "\u00ff\u0001"),
        ("f", {"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0000"),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001\u0000"),
        ("t", {"type": "int", "logicalType": "date"}, 1),
    )

    found = decoded(record(("a", "int")), [{"a": 1}], reader).values[0].as_py()

    assert (found["b"], found["f"], found["d"]) == (b"\xff\x01", b"\xff\x00", Decimal("2.56"))
    assert found["t"].isoformat() == "1970-01-02"


def test_an_unknown_enum_symbol_becomes_the_default_or_is_rejected() -> None:
    writer = record(("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    strict = record(("e", {"type": "enum", "name": "E", "symbols": ["A"]}))
    lenient = record(("e", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}))
    rows = [{"e": "A"}, {"e": "B"}]

    assert decoded(writer, rows, lenient).values.to_pylist() == [{"e": "A"}, {"e": "A"}]
    assert decoded(writer, rows, strict).rejections[1].code == Reason.ENUM


def test_times_in_another_unit_keep_their_meaning() -> None:
    millis = record(("t", {"type": "long", "logicalType": "timestamp-millis"}))
    micros = record(("t", {"type": "long", "logicalType": "timestamp-micros"}))

    assert (
        decoded(millis, [{"t": 1500}], micros).values.to_pylist()
        == decoded(millis, [{"t": 1500}]).values.to_pylist()
    )


@pytest.mark.parametrize("unions", ["struct", "json"])
def test_a_day_is_not_read_as_a_moment(unions: str) -> None:
    """It would be 00:00:19 of the first day of 1970."""
    day, moment = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}
    plain = decoded(record(("t", day)), [{"t": 19_000}], record(("t", moment)))
    assert plain.rejections[0].code == Reason.INCOMPATIBLE
    assert "date cannot be read as timestamp-millis" in plain.rejections[0].reason
    writer, reader = (record(("t", ["null", each, "string"])) for each in (day, moment))
    rows = [{"t": (1, 19_000)}, {"t": (2, "x")}]
    found = decoded(writer, rows, reader, Mapping(unions=unions))
    if unions == "json":
        assert {each.code for each in found.rejections.values()} == {Reason.INCOMPATIBLE}
        assert len(found.rejections) == 2
    else:
        assert found.rejections[0].code == Reason.UNION
        assert found.values[1].as_py() == {"t": {"long": None, "string": "x"}}


def test_a_schema_too_deep_for_columns_goes_to_the_quarantine() -> None:
    deep: Any = "int"
    for _ in range(3_000):
        deep = {"type": "array", "items": deep}
    reader = schema_text(record(("a", "int")))
    text = SchemaText("AVRO", dumps({"type": "record", "name": "R", "fields": [{"name": "d", "type": deep}]}))
    decoder = Decoder(reader, {1: text, 2: reader}.__getitem__)
    found = decoder.decode(pa.array([frame(1, b"\x00"), frame(2, b"\x02")], pa.binary()))
    assert found.rejections[0].code == Reason.INCOMPATIBLE
    assert found.values.to_pylist() == [None, {"a": 1}]


def test_nanoseconds_are_kept_or_cut_towards_the_past() -> None:
    schema = record(("t", {"type": "long", "logicalType": "timestamp-nanos"}))

    kept = decoded(schema, [{"t": -1}])
    cut = decoded(schema, [{"t": -1}], mapping=Mapping(nanos="timestamp"))

    assert kept.values.to_pylist() == [{"t": -1}]
    assert cut.values.field("t").cast(pa.int64()).to_pylist() == [-1]


def test_decimals_of_another_scale_are_rescaled_or_rejected() -> None:
    writer = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 3}))
    reader = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}))

    found = decoded(writer, [{"d": b"\x05\xdc"}, {"d": b"\x05\xdd"}], reader)

    assert found.values.to_pylist() == [{"d": Decimal("1.50")}, None]
    assert found.rejections[1].code == Reason.DECIMAL


def test_decimals_with_more_digits_than_a_column_holds_are_text() -> None:
    schema = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}))
    number = -(10**45) - 7

    found = decoded(schema, [{"d": number.to_bytes(20, "big", signed=True)}])

    assert found.values.to_pylist() == [{"d": "-" + "1" + "0" * 43 + ".07"}]


def test_constraints_of_the_contract_are_checked() -> None:
    schema = record(
        ("age", {"type": "int", "minimum": 0, "maximum": 150}),
        ("name", {"type": "string", "minLength": 2, "pattern": "^[a-z\u00e4]+$"}),
        ("tags", {"type": "array", "items": "string", "maxItems": 1}),
        ("price", ["null", {"type": "double", "exclusiveMinimum": 0}]),
    )
    right = {"age": 5, "name": "\u00e4b", "tags": ["x"], "price": (0, None)}
    wrong = [{"age": -1}, {"name": "a"}, {"name": "AB"}, {"tags": ["x", "y"]}, {"price": (1, 0.0)}]

    found = decoded(schema, [right, *(right | each for each in wrong)])

    assert {row: (each.code, each.path) for row, each in found.rejections.items()} == {
        1: (Reason.CONSTRAINT, "age"),
        2: (Reason.CONSTRAINT, "name"),
        3: (Reason.CONSTRAINT, "name"),
        4: (Reason.CONSTRAINT, "tags"),
        5: (Reason.CONSTRAINT, "price"),
    }


def test_a_message_that_is_not_a_record_is_a_column_named_value() -> None:
    frames = pa.array([b"\0\0\0\0\1\x04hi"], pa.binary())
    text = schema_text("string")

    assert Decoder(text, {1: text}.__getitem__).decode(frames).values.to_pylist() == [{"value": "hi"}]


def test_types_of_other_texts_can_be_referred_to() -> None:
    inner = schema_text({"type": "record", "name": "x.Inner", "fields": [{"name": "a", "type": "int"}]})
    outer = {"type": "record", "name": "x.Outer", "fields": [{"name": "inner", "type": "Inner"}]}
    text = SchemaText("AVRO", json.dumps(outer), (("x.Inner", inner),))

    found = Decoder(text, {1: text}.__getitem__).decode(pa.array([b"\0\0\0\0\1\x0a"], pa.binary()))

    assert found.values.to_pylist() == [{"inner": {"a": 5}}]


FAST = [
    "bytes",
    ["null", "int", "long", "string"],
    {"type": "fixed", "name": "F", "size": 16},
    {"type": "fixed", "name": "F", "size": 12},
    {"type": "map", "values": ["null", "string"]},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
]
SLOW = [{"type": "fixed", "name": "F", "size": 3}, {"type": "array", "items": "null"}]


@pytest.mark.parametrize(("type", "fast"), [(t, True) for t in FAST] + [(t, False) for t in SLOW], ids=str)
def test_only_few_types_are_read_row_by_row(type: Any, fast: bool) -> None:
    text = schema_text(record(("a", type)))

    plan: Any = AvroColumns().decoder(text, text, Mapping())

    assert (plan._schema is not None) is fast
