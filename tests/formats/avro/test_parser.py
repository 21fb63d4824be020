"""What is a schema and what is not, and where the fault lies."""

from __future__ import annotations

import json
from typing import Any

import fastavro.schema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.avro.strategies import schemas

from dragoman.core.errors import DragomanError, InvalidSchema
from dragoman.formats.avro import AvroFormat

avro = AvroFormat()


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(type: Any, **more: Any) -> dict[str, Any]:
    return {"name": "f", "type": type, **more}


def nested(levels: int) -> str:
    """Records inside records, as text: Python's own writer could not make it."""
    head = "".join(
        f'{{"type":"record","name":"R{level}","fields":[{{"name":"f","type":' for level in range(levels)
    )
    return head + '"int"' + "}]}" * levels


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ("nonsense", "schema.invalid.unknown-name", "/"),
        (7, "schema.invalid.type", "/"),
        ({}, "schema.invalid.type", "/"),
        ({"type": "array"}, "schema.invalid.type", "/"),
        ({"type": "map", "values": "wrong"}, "schema.invalid.unknown-name", "/values"),
        ({"type": "record", "name": "R"}, "schema.invalid.fields", "/"),
        (record(name="a-b"), "schema.invalid.name", "/name"),
        (record(name="1a"), "schema.invalid.name", "/name"),
        (record(name="int"), "schema.invalid.name", "/name"),
        (record(namespace="a..b"), "schema.invalid.name", "/namespace"),
        (record(aliases=["a b"]), "schema.invalid.name", "/aliases/0"),
        (record(field("int", name="a-b")), "schema.invalid.name", "/fields/0/name"),
        (record("int"), "schema.invalid.field", "/fields/0"),
        (record(field("int"), field("long")), "schema.invalid.duplicate-field", "/fields/1"),
        (record(field("int", order="up")), "schema.invalid.order", "/fields/0/order"),
        (
            record(field({"type": "record", "name": "R", "fields": []})),
            "schema.invalid.duplicate-name",
            "/fields/0/type",
        ),
        ([], "schema.invalid.union", "/"),
        (["int", "int"], "schema.invalid.union", "/1"),
        (["null", ["int"]], "schema.invalid.union", "/1"),
        (
            [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
            "schema.invalid.union",
            "/1",
        ),
        ({"type": "enum", "name": "E", "symbols": []}, "schema.invalid.enum", "/"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "schema.invalid.enum", "/symbols/1"),
        ({"type": "enum", "name": "E", "symbols": ["a-b"]}, "schema.invalid.name", "/symbols/0"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
            "schema.invalid.default",
            "/default",
        ),
        ({"type": "fixed", "name": "F", "size": 0}, "schema.invalid.fixed", "/size"),
        ({"type": "fixed", "name": "F"}, "schema.invalid.fixed", "/size"),
        (record(field("int", default="x")), "schema.invalid.default", "/fields/0/default"),
        (record(field("int", default=2**31)), "schema.invalid.default", "/fields/0/default"),
        (record(field("boolean", default=0)), "schema.invalid.default", "/fields/0/default"),
        (record(field("bytes", default="\u0100")), "schema.invalid.default", "/fields/0/default"),
        (
            record(field({"type": "array", "items": "int"}, default=[1, None])),
            "schema.invalid.default",
            "/fields/0/default/1",
        ),
        (record(field(["null", "int"], default="x")), "schema.invalid.default", "/fields/0/default"),
    ],
)
def test_a_fault_is_named_with_its_place(schema: Any, code: str, pointer: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        avro.parse(json.dumps(schema))
    assert caught.value.code == code
    assert caught.value.where["pointer"] == pointer


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="not JSON"):
        avro.parse("{")


def test_names_and_aliases_are_qualified_by_their_namespace() -> None:
    inner = {"type": "fixed", "name": "Inner", "size": 2, "aliases": ["Old", "other.Old"]}
    schema = avro.parse(json.dumps(record(field(inner), namespace="a.b")))
    assert schema.name == "a.b.R"
    assert schema.names["a.b.Inner"].aliases == ("a.b.Old", "other.Old")


def test_a_name_with_dots_brings_its_own_namespace() -> None:
    inner = {"type": "fixed", "name": "Inner", "size": 2}
    schema = avro.parse(json.dumps(record(field(inner), name="x.y.R", namespace="ignored")))
    assert set(schema.names) == {"x.y.R", "x.y.Inner"}


def test_other_schemas_are_used_by_name() -> None:
    address = avro.parse(json.dumps(record(field("string"), name="Address", namespace="shop")))
    order = avro.parse(json.dumps(record(field("shop.Address"), name="Order")), {"shop.Address": address})
    codec = avro.codec(order)
    assert codec.decode(codec.encode({"f": {"f": "x"}})) == {"f": {"f": "x"}}
    outer = avro.parse(json.dumps(record(field("Order"), name="Outer")), {"Order": order})
    assert avro.codec(outer).encode({"f": {"f": {"f": "x"}}}) == b"\x02x"
    with pytest.raises(InvalidSchema, match=r"shop\.Address"):
        avro.parse(json.dumps(record(field("shop.Address"), name="Order")))


def test_an_unknown_or_unfitting_logical_type_is_ignored() -> None:
    for logical in ("made-up", "date"):
        codec = avro.codec(avro.parse(json.dumps({"type": "string", "logicalType": logical})))
        assert codec.decode(codec.encode("x")) == "x"
    wrong = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}
    codec = avro.codec(avro.parse(json.dumps(wrong)))
    assert codec.decode(codec.encode(b"x")) == b"x"


def test_a_thousand_levels_are_parsed_compared_normalised_and_compiled() -> None:
    text = nested(1_000)
    schema, again = avro.parse(text), avro.parse(text.replace(":", ": "))
    assert schema.fingerprint == again.fingerprint
    assert avro.parse(schema.normalised(2)).fingerprint == schema.fingerprint
    assert schema.normalised(1) == text
    assert avro.incompatibilities(schema, again) == ()
    value: Any = 5
    for _ in range(1_000):
        value = {"f": value}
    codec = avro.codec(schema, again)
    assert codec.encode(value) == b"\x0a"
    decoded = codec.decode(b"\x0a")
    for _ in range(1_000):
        decoded = decoded["f"]
    assert decoded == 5


def test_a_fault_below_a_thousand_levels_has_its_path_and_example() -> None:
    deep, changed = avro.parse(nested(1_000)), avro.parse(nested(1_000).replace('"int"', '"string"'))
    (reason,) = avro.incompatibilities(changed, deep)
    assert reason.rule == "TYPE_MISMATCH"
    assert reason.reader_path == "/fields/0/type" * 1_000
    assert reason.counterexample == '{"f":' * 1_000 + "0" + "}" * 1_000


def test_what_nests_without_end_is_refused() -> None:
    with pytest.raises(InvalidSchema) as caught:
        avro.parse(nested(20_000))
    assert caught.value.code == "schema.invalid.depth"
    with pytest.raises(InvalidSchema):
        avro.parse("[" * 50_000)


def test_two_thousand_fields_are_no_burden() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(2_000)]
    schema = avro.parse(json.dumps(record(*fields)))
    other = avro.parse(json.dumps(record(*reversed(fields))))
    assert avro.incompatibilities(other, schema) == ()
    value = {f"f{number}": number for number in range(2_000)}
    assert avro.codec(schema, other).decode(avro.codec(schema).encode(value)) == value


@given(schemas())
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
def test_canonical_form_and_fingerprints_equal_fastavros(schema: Any) -> None:
    parsed = avro.parse(json.dumps(schema))
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    assert parsed.canonical == canonical
    assert parsed.fingerprint == fastavro.schema.fingerprint(canonical, "SHA-256")
    crc = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
    assert parsed.crc64.to_bytes(8, "little").hex() == crc


def test_level_1_keeps_the_order_and_level_2_does_not_depend_on_it() -> None:
    one = record(field("int", doc="D", default=1, aliases=["b", "a"]), namespace="n", doc="R")
    other = {
        "doc": "R",
        "namespace": "n",
        "fields": [
            {
                "aliases": ["a", "b"],
                "default": 1,
                "type": {"type": "int"},
                "name": "f",
                "doc": "D",
                "order": "ascending",
            }
        ],
        "name": "R",
        "type": "record",
    }
    first, second = avro.parse(json.dumps(one, indent=2)), avro.parse(json.dumps(other))
    assert first.normalised(1) == json.dumps(one, separators=(",", ":"))
    assert first.normalised(1) != second.normalised(1)
    assert first.normalised(2) == second.normalised(2)
    assert avro.parse(first.normalised(2)).normalised(2) == first.normalised(2)
    with pytest.raises(DragomanError):
        first.normalised(3)


def test_level_2_keeps_a_type_out_of_the_namespace_around_it() -> None:
    outside = {"type": "enum", "name": "Outside", "namespace": "", "symbols": ["A"]}
    parsed = avro.parse(json.dumps(record(field(outside), field("Outside", name="b"), namespace="inside")))
    assert avro.parse(parsed.normalised(2)).canonical == parsed.canonical


@pytest.mark.parametrize("levels", [0, 40])
def test_a_default_that_has_no_end_is_refused(levels: int) -> None:
    """One that contains itself, and one that doubles with each level."""
    inner: Any = record(field("int", default=1) if levels else field("R", default={}))
    for level in range(levels):
        name = inner["name"]
        inner = record(field(inner, default={}), field(name, name="b", default={}), name=f"R{level}")
    with pytest.raises(InvalidSchema, match="contains itself"):
        avro.parse(json.dumps(inner))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "name", "fields", "items", "symbols", "size", "default", "values"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
def test_any_json_is_a_schema_or_an_invalid_one(content: Any) -> None:
    try:
        avro.parse(json.dumps(content))
    except InvalidSchema as error:
        assert error.code.startswith("schema.invalid")


@pytest.mark.parametrize(
    "type", ["double", "float", ["null", "double"], {"type": "array", "items": "double"}]
)
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400])
@pytest.mark.parametrize("deep", [False, True])
def test_a_number_that_json_does_not_have_is_refused(type: Any, number: str, deep: bool) -> None:
    schema = json.dumps(record(field(type, default="HERE"))).replace('"HERE"', number)
    if deep:
        schema = schema.replace('"name": "R"', '"name": "R", "x": ' + "[" * 2000 + "]" * 2000)
    with pytest.raises(InvalidSchema):
        avro.parse(schema)


@pytest.mark.parametrize("number", [0, -1, 1.5, 2**80, 10**308, 1e308, -1.7976931348623157e308])
def test_a_number_that_a_double_holds_is_a_default(number: float) -> None:
    parsed = avro.parse(json.dumps(record(field("double", default=number))))
    codec = avro.codec(avro.parse(json.dumps(record())), parsed)
    assert codec.decode(b"") == {"f": float(number)}


def test_what_lacks_its_type_is_told_its_place() -> None:
    for schema, pointer in (
        (record({"name": "f"}), "/fields/0"),
        (
            record(field({"type": "record", "name": "S", "fields": [{"name": "g"}]})),
            "/fields/0/type/fields/0",
        ),
        (record(field({"type": "array"})), "/fields/0/type"),
        ([{"items": "int"}], "/0"),
    ):
        with pytest.raises(InvalidSchema) as refused:
            avro.parse(json.dumps(schema))
        assert refused.value.where["pointer"] == pointer
        assert "type" in refused.value.what or "items" in refused.value.what


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800", "a\\uDBFFb", chr(0xD800)])
def test_half_a_character_is_no_text(text: str) -> None:
    with pytest.raises(InvalidSchema, match="half of a character"):
        avro.parse(f'{{"type": "string", "doc": "{text}"}}')
    assert avro.parse('{"type": "string", "doc": "\\ud83d\\ude00"}').root.properties == {"doc": "\U0001f600"}
