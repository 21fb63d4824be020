"""Values kept whole: their types in every namespace, and the columns of a union's branches."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoded, Decoder, Mapping, SchemaText
from dragoman.pipeline.arrow.variant import to_json
from dragoman.schema.framing import frame

FORMAT = load(FORMATS, "AVRO")()
E = {"type": "enum", "name": "E", "namespace": "", "symbols": ["P", "Q"]}
N_E = {"type": "enum", "name": "n.E", "symbols": ["X", "Y"]}


def record(name: str, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in types.items()]}


def client(schema: Any, payload: bytes) -> Any:
    return FORMAT.codec(FORMAT.parse(json.dumps(schema))).decode(payload)


def columns(schema: Any, payloads: list[bytes], **mapping: str) -> Decoded:
    text = SchemaText("AVRO", json.dumps(schema))
    decoder = Decoder(text, {1: text}.__getitem__, Mapping(**mapping))
    found = decoder.decode(pa.array([frame(1, each) for each in payloads], pa.binary()))
    assert not found.rejections
    found.values.validate(full=True)
    return found


def cells(schema: Any, payloads: list[bytes], **mapping: str) -> list[Any]:
    found: list[Any] = columns(schema, payloads, **mapping).values.to_pylist()
    return found


SCOPED = [
    ["int", "string", record("n.A", e=E), "E"],
    ["int", E, record("n.A", e="E", again="E")],
    ["int", record("n.A", e=E, f=N_E), "string"],
    ["int", record("n.A", f=N_E), E],
    ["int", record("n.A", b=record("B", e=E), c={"type": "array", "items": "E"}), "string"],
    ["int", record("n.A", b=record("m.B", e=E, f=N_E)), {"type": "map", "values": "n.E"}],
]


@pytest.mark.parametrize("union", SCOPED, ids=json.dumps)
@pytest.mark.parametrize("name", ["n.R", "R"])
def test_a_union_kept_whole_has_types_of_all_namespaces(union: Any, name: str) -> None:
    schema = record(name, u=union)
    every = (bytes(each) for size in range(1, 7) for each in product((0, 2, 4), repeat=size))
    payloads = [each for each in every if not refused(schema, each)]
    assert {each[0] for each in payloads} == {0, 2, 4}
    expected = [{"u": to_json(client(schema, each)["u"])} for each in payloads]
    assert cells(schema, payloads, unions="json") == expected


def refused(schema: Any, payload: bytes) -> bool:
    try:
        client(schema, payload)
    except Exception:
        return True
    return False


def test_a_type_that_contains_itself_may_have_types_of_all_namespaces() -> None:
    node = record("n.A", e=E, e2=N_E, next=["null", "n.A"])
    schema = record("n.R", x=["null", node])
    (cell,) = cells(schema, [b"\x02\x00\x00\x02\x02\x00\x00"], recursion="json")
    assert cell == {"x": {"e": "P", "e2": "X", "next": to_json({"e": "Q", "e2": "X", "next": None})}}


def test_names_that_would_mean_another_type_are_refused() -> None:
    """Within n, E means n.E once that is defined."""
    inner = record("n.B", back=["null", "n.A"], r="E", again=["null", "n.B"])
    schema = record("n.A", p=E, q=["null", inner], s=N_E)
    with pytest.raises(ConfigurationError, match=r"types E and n\.E cannot be kept whole"):
        columns(schema, [], recursion="json")


def members(schema: Any, **mapping: str) -> list[str]:
    text = SchemaText("AVRO", json.dumps(schema))
    type = Decoder(text, {1: text}.__getitem__, Mapping(**mapping)).type
    return [each.name for each in type.field("u").type]


def test_every_branch_that_contains_itself_has_a_member_of_its_own() -> None:
    add = record("test.Add", a=["null", "test.Node", "test.Add"])
    schema = record("test.Node", id="long", u=["null", "string", add])
    text = SchemaText("AVRO", json.dumps(schema))
    found = Decoder(text, {1: text}.__getitem__, Mapping(recursion="json")).type.field("u").type
    assert [each.name for each in found] == ["string", "Add"]
    assert [each.name for each in found.field("Add").type.field("a").type] == ["Node", "Add"]
    payload = b"\x02\x04\x02\x0a\x00"
    (cell,) = cells(schema, [payload], recursion="json")
    assert cell["u"]["Add"]["a"] == {"Node": to_json({"id": 5, "u": None}), "Add": None}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["n.A", "m.B"], ["A", "B"]),
        (["n.A", "m.A"], ["n_A", "m_A"]),
        (["n.A", "m.A", "n_A"], ["n_A_", "m_A", "n_A"]),
        (["n.m_A", "n_m.A", "m_A", "A"], ["n_m_A", "n_m_A_", "m_A", "A"]),
        (["A", "n.A", "opaque"], ["A", "n_A", "opaque"]),
    ],
)
def test_members_of_a_union_have_distinct_names(names: list[str], expected: list[str]) -> None:
    schema = record("R", u=["null", *(record(name, x="int") for name in names)])
    assert members(schema) == expected
