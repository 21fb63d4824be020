"""A field that older messages lack has the default that the client gives it, of whatever type it is."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.arrow.test_avro_agreement import agree

from dragoman.core.errors import InvalidSchema
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Mapping, Reason, SchemaText
from dragoman.pipeline.arrow.variant import to_json
from dragoman.schema.framing import frame

FORMAT = load(FORMATS, "AVRO")()
REFUSED = object()


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    listed = [{"name": f[0], "type": f[1]} | ({"default": f[2]} if len(f) > 2 else {}) for f in fields]
    return {"type": "record", "name": name, "fields": listed}


def logical(type: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "logicalType": name} | more


def read(type: Any, default: Any, mapping: Mapping | None = None) -> tuple[Any, Any]:
    """What the client and the columns give a field that the message lacks. Raises ``InvalidSchema``."""
    writer, reader = (json.dumps(record("R", ("k", "int"), *more)) for more in ((), (("a", type, default),)))
    plain = FORMAT.codec(FORMAT.parse(writer), FORMAT.parse(reader)).decode(b"\x02")["a"]
    decoder = Decoder(SchemaText("AVRO", reader), {1: SchemaText("AVRO", writer)}.__getitem__, mapping)
    found = decoder.decode(pa.array([frame(1, b"\x02")] * 3, pa.binary()))
    if found.rejections:
        assert {each.code for each in found.rejections.values()} == {Reason.INCOMPATIBLE}
        return plain, REFUSED
    found.values.validate(full=True)
    first, *others = found.values.field("a").to_pylist()
    assert others == [first, first]
    return plain, first


A, B = record("A", ("x", "int")), record("B", ("y", "string"))
MAP = {"type": "map", "values": "int"}
LINK = record("Link", ("next", ["null", "Link"]))
UNIONS = [
    ([A, B], {"y": "q"}),
    ([A, MAP], {"q": 1}),
    ([A, MAP], {"x": 1}),
    ([record("C", ("x", "int", 7)), MAP], {}),
    ([record("C", ("x", ["int", "string"])), B], {"x": "q", "y": "r"}),
    (["int", "long"], 5_000_000_000),
    (["int", "long"], -(2**31)),
    (["int", "double"], 2**31),
    (["long", "float"], 1.5),
    (["null", "double", "int"], 3),
    (["int", "boolean"], True),
    (["bytes", "string"], "\u00ff"),
    (["bytes", "string"], "\u0100"),
    ([{"type": "fixed", "name": "F", "size": 2}, "string"], "\u0100\u0101"),
    ([{"type": "enum", "name": "E", "symbols": ["P"]}, "string"], "Q"),
    ([{"type": "array", "items": "int"}, {"type": "map", "values": "string"}], {"q": "r"}),
    ([MAP, record("C", ("x", "string"))], {"x": "q"}),
    (["null", {"type": "array", "items": ["int", "string", B]}], [1, "q", {"y": "r"}]),
    (["null", A], {"x": 1}),
    (["int", logical("string", "uuid")], "no uuid"),
]


@pytest.mark.parametrize("unions", ["struct", "json"])
@pytest.mark.parametrize(("type", "default"), UNIONS, ids=json.dumps)
def test_a_union_takes_the_first_branch_that_the_default_fits(type: Any, default: Any, unions: str) -> None:
    plain, cell = read(type, default, Mapping(unions=unions))
    assert agree(type, plain, cell)


def test_a_branch_that_contains_itself_is_tried_too() -> None:
    mapping = Mapping(recursion="json")
    assert read([LINK, MAP], {"q": 1}, mapping) == ({"q": 1}, {"Link": None, "map": [("q", 1)]})
    plain, cell = read([LINK, MAP], {"next": {"next": None}}, mapping)
    assert plain == {"next": {"next": None}}
    assert cell == {"Link": {"next": to_json({"next": None})}, "map": None}


BARE = [
    logical("string", "uuid"),
    ["null", logical("string", "uuid")],
    record("Q", ("u", logical("string", "uuid"))),
    {"type": "string", "minLength": 3},
    {"type": "int", "maximum": 5},
]


@pytest.mark.parametrize("type", BARE, ids=json.dumps)
def test_defaults_are_not_checked_against_logical_types_and_constraints(type: Any) -> None:
    default = {"u": ""} if "fields" in type else 9 if "maximum" in type else ""
    plain, cell = read(type, default)
    assert plain == cell == default


def test_a_default_that_no_column_can_hold_is_refused() -> None:
    """The client gives the bare bytes or number."""
    for type, default in (
        (logical("bytes", "decimal", precision=2, scale=1), "\u0010\u0000\u0000"),
        (logical("int", "time-millis"), -5),
        (logical("long", "timestamp-millis"), 2**63 - 1),
    ):
        assert read(type, default)[1] is REFUSED
    assert read(logical("bytes", "decimal", precision=2, scale=1), "") == (0, 0)


branches = st.sampled_from(
    [
        "null",
        "boolean",
        "int",
        "long",
        "double",
        "bytes",
        "string",
        A,
        B,
        record("C", ("x", "long"), ("y", ["null", "string"], None)),
        {"type": "fixed", "name": "F", "size": 1},
        {"type": "enum", "name": "E", "symbols": ["x", "y"]},
        {"type": "array", "items": ["int", "string"]},
        {"type": "map", "values": ["boolean", "long"]},
    ]
)
scalars = (
    st.none() | st.booleans() | st.sampled_from([0, -1, 2**31, 2**40, 0.5, "x", "z", "", "\u00e9", "\u0100"])
)
defaults = (
    scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from("xyq"), scalars, max_size=2)
)


@given(st.lists(branches, min_size=1, max_size=6, unique_by=json.dumps), defaults)
def test_columns_and_client_agree_on_every_default(type: list[Any], default: Any) -> None:
    try:
        plain, cell = read(type, default)
    except InvalidSchema:
        return
    assert agree(type, plain, cell)
