"""Values kept whole as JSON text are written back as the value that they were, or refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.arrow.avro_cases import records, roots, schema_text, values, written

from dragoman.core.errors import EncodeError
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Encoder, Mapping, Reason

MODEST = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
FORMAT = load(FORMATS, "AVRO")()
JSON = Mapping(unions="json", recursion="json")


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def record(name: str, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in types.items()]}


DATE = logical("int", "date")
MOMENT = logical("long", "timestamp-millis")
DECIMAL = logical("bytes", "decimal", precision=5, scale=2)
UUID = logical("string", "uuid")
ENUM = {"type": "enum", "name": "E", "symbols": ["P", "Q"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}


def again(schema: Any, frames: list[bytes], mapping: Mapping = JSON) -> tuple[list[bytes | None], Any]:
    """Frames decoded to columns and encoded again, with the rejections."""
    text = schema_text(schema)
    decoded = Decoder(text, {1: text}.__getitem__, mapping).decode(pa.array(frames, pa.binary()))
    assert decoded.rejections == {}
    encoded = Encoder(text, 1, mapping).encode(decoded.values)
    return encoded.frames.to_pylist(), encoded.rejections


def published(schema: Any, *texts: str | None) -> tuple[list[Any], list[Any]]:
    """What a client reads of JSON texts in the column ``u``, and the codes of those refused."""
    rows = pa.StructArray.from_arrays([pa.array(texts, pa.string())], ["u"])
    encoded = Encoder(schema_text(schema), 1, JSON).encode(rows)
    read = [None if each is None else client(schema, each)["u"] for each in encoded.frames.to_pylist()]
    return read, [encoded.rejections[row].code for row in sorted(encoded.rejections)]


def client(schema: Any, frame: bytes) -> Any:
    return FORMAT.codec(FORMAT.parse(json.dumps(schema))).decode(frame[5:])


def has_like_numbers(schema: Any) -> bool:
    """Whether a union has two types of one kind of number: 5 is the same value in either."""
    if isinstance(schema, list):
        plain = {each for each in schema if isinstance(each, str)}
        like = {"int", "long"} <= plain or {"float", "double"} <= plain
        return like or any(map(has_like_numbers, schema))
    if isinstance(schema, dict):
        return any(has_like_numbers(each) for each in schema.values())
    return False


def node(inner: Any, next: Any) -> Any:
    return record("Node", v=inner, next=["null", next])


@st.composite
def kept_whole(draw: Any) -> tuple[Any, list[bytes]]:
    """A record in which unions are kept whole, or a recursive one that holds one; and messages of it."""
    if draw(st.booleans()):
        schema = draw(roots())
        rows = draw(st.lists(values(schema), min_size=1, max_size=5))
        return schema, [written(schema, row, 1) for row in rows]
    inner = draw(records([0], 1))
    frames = []
    for depth in draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)):
        unrolled: Any = "int"
        row: Any = None
        for level in range(depth + 1):
            unrolled = node(inner, unrolled)
            row = {"v": draw(values(inner)), "next": (1, row) if level else (0, None)}
        frames.append(written(unrolled, row, 1))
    return node(inner, "Node"), frames


@given(kept_whole())
@MODEST
def test_a_decoded_value_is_written_back_as_itself_or_refused(case: tuple[Any, list[bytes]]) -> None:
    schema, frames = case

    back, rejections = again(schema, frames)

    for row, (frame, found) in enumerate(zip(frames, back, strict=True)):
        if found is None:
            assert rejections[row].code == Reason.ENCODE_UNION
        elif has_like_numbers(schema):
            assert repr(client(schema, found)) == repr(client(schema, frame))
        else:
            assert found == frame


CLEAR: list[tuple[Any, Any]] = [
    ([MOMENT, "string"], (1, "soon")),
    ([MOMENT, "boolean"], (0, 1_767_225_600_000)),
    ([DATE, "boolean"], (0, 20_454)),
    ([DATE, MOMENT], (0, 20_454)),
    ([DATE, MOMENT], (1, 1_767_225_600_000)),
    ([DECIMAL, "boolean"], (0, b"\x7d")),
    ([DECIMAL, "double"], (0, b"\x7d")),
    ([DECIMAL, "double"], (1, 1.25)),
    (["bytes", "long"], (0, b"ab")),
    (["bytes", "long"], (0, b"\xff\x00")),
    (["bytes", "string"], (1, "not base64")),
    ([FIXED, "string"], (1, "not base64")),
    ([FIXED, "int"], (0, b"ab")),
    ([UUID, "int"], (0, "12345678-1234-1234-1234-123456789abc")),
    (["double", "long"], (1, 5)),
    (["double", "long"], (0, 5.0)),
    (["float", "double"], (1, 0.1)),
    (["null", "bytes", "long"], (0, None)),
    (["null", "bytes", "long"], (1, b"")),
    ([UUID, ENUM, "bytes"], (2, b"")),
    ([ENUM, "int"], (0, "Q")),
    ([ENUM, "string"], (1, "R")),
    ([record("A", x="int"), record("B", y="int")], (1, {"y": 1})),
    ([record("A", x=MOMENT), record("B", x="boolean")], (0, {"x": 0})),
    (
        [record("A", x=["bytes", "string"], k="int"), record("B", x="string", k="string")],
        (1, {"x": "abcd", "k": "v"}),
    ),
    ([{"type": "map", "values": "bytes"}, "int"], (0, {"k": b"ab"})),
    ([{"type": "array", "items": ["null", DECIMAL]}, "int"], (0, [(1, b"\x7d"), (0, None)])),
]


@pytest.mark.parametrize(("union", "value"), CLEAR, ids=str)
def test_a_value_that_only_one_branch_has_is_written_back(union: Any, value: Any) -> None:
    schema = record("R", u=union)
    frame = written(schema, {"u": value}, 1)

    assert again(schema, [frame]) == ([frame], {})


TWOFOLD: list[tuple[Any, Any]] = [
    ([MOMENT, "string"], (0, 1_767_225_600_000)),
    ([MOMENT, "string"], (1, "2026-01-01T00:00:00+00:00")),
    ([DECIMAL, "string"], (0, b"\x7d")),
    (["bytes", "string"], (0, b"ab")),
    ([FIXED, "string"], (0, b"ab")),
    ([ENUM, "string"], (0, "P")),
    (["string", ENUM], (1, "P")),
    ([record("A", x="int"), record("B", x="int")], (1, {"x": 1})),
    ([record("A", x=MOMENT), record("B", x="string")], (0, {"x": 0})),
    ([record("A", x="int"), {"type": "map", "values": "int"}], (0, {"x": 1})),
    ([{"type": "array", "items": ["bytes", "string"]}, "int"], (0, [(0, b"ab")])),
]


@pytest.mark.parametrize(("union", "value"), TWOFOLD, ids=str)
def test_a_value_whose_text_could_be_another_branchs_is_refused(union: Any, value: Any) -> None:
    schema = record("R", u=union)

    frames, rejections = again(schema, [written(schema, {"u": value}, 1)])

    assert frames == [None]
    assert rejections[0].code == Reason.ENCODE_UNION
    assert "more than one branch" in rejections[0].reason and rejections[0].path == "u"


def test_text_that_fits_no_branch_is_refused() -> None:
    schema = record("R", u=["int", {"type": "array", "items": "bytes"}])

    found = published(schema, "5", '["YWI="]', '["?"]', "2147483648", "x", '{"a":1}', "[" * 100_000, None)

    assert found[0][:2] == [5, [b"ab"]] and found[0][2:] == [None] * 6
    assert found[1] == [Reason.ENCODE_TYPE] * 5 + [Reason.ENCODE_NULL]


def test_text_in_another_spelling_is_taken_if_one_branch_takes_it() -> None:
    assert published(record("R", u=["double", "string"]), "5")[0] == [5.0]
    assert published(record("R", u=["double", "long"]), "5")[0] == [5]
    read, refused = published(record("R", u=[MOMENT, "boolean"]), '"2026-01-01T00:00Z"', '"2026-01-01"')
    assert read[0].isoformat() == "2026-01-01T00:00:00+00:00"
    assert refused == [Reason.ENCODE_TYPE]


def test_many_branches_that_nest_are_told_apart_in_time() -> None:
    """Each level has two branches to try, so that trying all combinations would never end."""
    nodes = [record(name, x=["int", "A", "B"] if name == "B" else ["int"]) for name in ("A", "B")]
    nodes[0]["fields"][0]["type"] = ["int", "A", nodes[1]]
    text = "1"
    for _ in range(100):
        text = f'{{"x":{text}}}'

    _, refused = published(record("R", u=["string", nodes[0], "B"]), text)

    assert refused == [Reason.ENCODE_UNION]


@st.composite
def defaults(draw: Any, depth: int = 2) -> tuple[Any, Any]:
    """A type, and a default of it as JSON: whole numbers for real ones, which is where readers differ."""
    match draw(st.sampled_from(["real", "bytes", "enum", *(["array", "map", "record"] if depth else [])])):
        case "real":
            return draw(st.sampled_from(["float", "double"])), draw(st.sampled_from([2, -1, 0, 1.5, 1e30]))
        case "bytes":
            return "bytes", "\u00ff"
        case "enum":
            return {"type": "enum", "name": f"E{depth}", "symbols": ["P"]}, "P"
        case "array":
            items, default = draw(defaults(depth - 1))
            return {"type": "array", "items": items}, [default]
        case "map":
            items, default = draw(defaults(depth - 1))
            return {"type": "map", "values": items}, {"k": default}
        case _:
            type, default = draw(defaults(depth - 1))
            field = {"name": "x", "type": type, "default": default}
            return {"type": "record", "name": f"N{depth}", "fields": [field]}, {}


@given(case=defaults(), mapping=st.sampled_from(["json", "variant"]), data=st.data())
@MODEST
def test_any_default_that_the_client_takes_may_be_within_a_value_kept_whole(
    case: tuple[Any, Any], mapping: Any, data: st.DataObject
) -> None:
    type, default = case
    field = {"name": "d", "type": type, "default": default}
    in_union = record("R", u=["long", {"type": "record", "name": "A", "fields": [field]}])
    recursive = {"type": "record", "name": "R", "fields": [field, {"name": "next", "type": ["null", "R"]}]}
    schema = data.draw(st.sampled_from([in_union, recursive]))
    assert FORMAT.parse(json.dumps(schema))

    assert Encoder(schema_text(schema), 1, Mapping(unions=mapping, recursion=mapping))


def test_a_value_with_such_a_default_is_written_back() -> None:
    field = {"name": "a", "type": "double", "default": 2}

    def node(next: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [field, {"name": "next", "type": ["null", next]}]}

    row = {"a": 1.5, "next": (1, {"a": 2.5, "next": (0, None)})}
    frame = written(node(node("int")), row, 1)

    assert again(node("R"), [frame]) == ([frame], {})


def test_a_missing_column_of_a_union_kept_whole_is_written_as_its_default() -> None:
    field = {"name": "u", "type": ["bytes", "long"], "default": "\u00ff"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, field]}
    rows = pa.StructArray.from_arrays([pa.array([1], pa.int32())], ["a"])

    encoded = Encoder(schema_text(schema), 1, JSON).encode(rows)

    assert encoded.frames.to_pylist() == [written(schema, {"a": 1, "u": (0, b"\xff")}, 1)]


def test_variants_are_refused_when_the_columns_are_checked() -> None:
    schema = record("R", u=["bytes", "long"])
    with pytest.raises(EncodeError, match="string with JSON text needed"):
        again(schema, [written(schema, {"u": (1, 5)}, 1)], Mapping(unions="variant"))


def test_values_nested_too_deeply_are_refused_whatever_the_depth() -> None:
    """Where the stack ends, one branch may fail before another does: that says nothing of the value."""
    nodes = record("R", u=["null", "R", {"type": "map", "values": "R"}])
    for depth in (1, 50, *range(100, 400, 7), 5000):
        text = '{"u":' * depth + "null" + "}" * depth
        _, refused = published(record("W", u=["string", nodes]), text)
        assert refused in ([], [Reason.ENCODE_TYPE], [Reason.ENCODE_UNION]), depth
        assert refused or depth < 400
