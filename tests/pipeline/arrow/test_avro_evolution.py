"""Random changes between a writer's and a reader's schema: what we resolve is what fastavro resolves."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.pipeline.arrow.avro_cases import read_by_fastavro, roots, same, schema_text, values, written

from dragoman.pipeline.arrow import Decoder

PROMOTIONS = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
}
NEW_FIELDS: list[tuple[Any, Any]] = [
    ("long", 7),
    ("string", "d\u00e9fault"),
    (["null", "string"], None),
    (["string", "null"], "x"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "double"}, {"k": 1.5}),
    ({"type": "record", "name": "New", "fields": [{"name": "a", "type": "int", "default": 3}]}, {"a": 4}),
    (["int", "string", "null"], 5),
    ({"type": "long", "logicalType": "timestamp-millis"}, 1_000),
    ({"type": "enum", "name": "NewEnum", "symbols": ["P", "Q"]}, "Q"),
]


@st.composite
def cases(draw: Any) -> tuple[Any, Any, list[Any]]:
    writer = draw(roots())
    reader = copy.deepcopy(writer)
    fields = reader["fields"]
    for each in list(fields):
        match draw(st.sampled_from(["keep", "drop", "promote", "rename", "optional", "enum"])):
            case "drop":
                fields.remove(each)
            case "promote" if isinstance(each["type"], str) and each["type"] in PROMOTIONS:
                each["type"] = draw(st.sampled_from(PROMOTIONS[each["type"]]))
            case "rename":
                each["aliases"] = [each["name"]]
                each["name"] = f"renamed_{each['name']}"
            case "optional" if not isinstance(each["type"], list) and each["type"] != "null":
                each["type"] = ["null", each["type"]]
            case "enum" if isinstance(each["type"], dict) and each["type"]["type"] == "enum":
                each["type"] |= {"symbols": ["S0", "OTHER"], "default": "OTHER"}
    for number, (type, default) in enumerate(
        draw(st.lists(st.sampled_from(NEW_FIELDS), unique_by=str, max_size=3))
    ):
        fields.append({"name": f"new{number}", "type": copy.deepcopy(type), "default": default})
    fields[:] = draw(st.permutations(fields))
    return writer, reader, draw(st.lists(values(writer), min_size=1, max_size=4))


@given(cases())
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
def test_what_is_resolved_is_what_fastavro_resolves(case: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, rows = case
    assume(reader["fields"])
    frames = [written(writer, row, 1) for row in rows]
    decoder = Decoder(schema_text(reader), {1: schema_text(writer)}.__getitem__)

    decoded = decoder.decode(pa.array(frames, pa.binary()))

    assert decoded.rejections == {}
    decoded.values.validate(full=True)
    for frame, cell in zip(frames, decoded.values.to_pylist(), strict=True):
        assert same(reader, read_by_fastavro(writer, reader, frame[5:]), cell)
