from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from dragoman.core.errors import InvalidSchema
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.formats.json import JsonFormat

FORMAT = JsonFormat()
DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT6 = "http://json-schema.org/draft-06/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


def valid(schema: Any, value: Any, **references: Any) -> bool:
    parsed = {name: FORMAT.parse(json.dumps(each)) for name, each in references.items()}
    codec = FORMAT.codec(FORMAT.parse(json.dumps(schema), parsed))
    try:
        codec.encode(value)
    except Exception:
        return False
    return True


def test_the_format_is_found_by_its_name() -> None:
    found: Format = load(FORMATS, "JSON")()
    assert found.schema_type == "JSON"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$schema": DRAFT4, "maximum": 3, "exclusiveMaximum": True}, 2, 3),
        ({"$schema": DRAFT6, "const": 3}, 3, 2),
        ({"$schema": DRAFT7, "if": {"type": "string"}, "then": {"minLength": 2}}, "ab", "a"),
        ({"$schema": DRAFT2019, "dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ({"$schema": DRAFT2020, "prefixItems": [{"type": "string"}]}, ["a"], [1]),
    ],
)
def test_each_draft_is_read_by_its_own_rules(schema: Any, good: Any, bad: Any) -> None:
    assert valid(schema, good)
    assert not valid(schema, bad)


def test_a_schema_that_names_no_draft_is_of_draft_7() -> None:
    assert not valid({"items": [{"type": "string"}]}, [1])
    assert valid({"prefixItems": [{"type": "string"}]}, [1])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", {"line": 1, "column": 2}),
        ('{"properties": {"a": {"type": "strin"}}}', {"pointer": "/properties/a/type"}),
        ('{"properties": {"a/b": {"minLength": -1}}}', {"pointer": "/properties/a~1b/minLength"}),
        ('{"pattern": "(("}', {"pointer": "/pattern"}),
        ('{"properties": {"a": {"$ref": "#/definitions/b"}}}', {"pointer": "/properties/a/$ref"}),
        ('{"$schema": "https://example.com/mine"}', {"pointer": "/$schema"}),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(text: str, place: dict[str, object]) -> None:
    with pytest.raises(InvalidSchema) as caught:
        FORMAT.parse(text)
    assert {name: caught.value.where.get(name) for name in place} == place
    assert caught.value.code.startswith("schema.invalid")


@pytest.mark.parametrize(
    "text",
    [
        "3",
        '{"a": 1, "a": 2}',
        '{"maximum": NaN}',
        '{"maximum": 1e999}',
        '{"maximum": ' + "1" * 5000 + "}",
        "[" * 100_000,
        '{"not":' * 101 + "{}" + "}" * 101,
        '{"title": "' + "x" * 1_100_000 + '"}',
        '{"pattern": "(a{1000}){1000}"}',
        '{"title": "\\ud800"}',
    ],
    ids=["number", "twice", "nan", "infinite", "digits", "open", "deep", "large", "explosive", "surrogate"],
)
def test_what_is_no_reasonable_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        FORMAT.parse(text)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a|aa)+(?!b)$", "^(a*)*\\1$"])
def test_a_pattern_cannot_hang_the_validator(pattern: str) -> None:
    assert not valid({"pattern": pattern}, "a" * 50_000 + "!")


def test_references_within_a_schema_are_followed() -> None:
    schema = {
        "$id": "https://example.com/tree.json",
        "type": "object",
        "properties": {
            "name": {"$ref": "#/definitions/name"},
            "alias": {"$ref": "#short"},
            "children": {"type": "array", "items": {"$ref": "tree.json"}},
        },
        "definitions": {"name": {"type": "string"}, "other": {"$id": "#short", "maxLength": 2}},
    }
    assert valid(schema, {"name": "a", "alias": "ab", "children": [{"name": "b"}]})
    assert not valid(schema, {"alias": "abc"})
    assert not valid(schema, {"children": [{"children": [{"name": 1}]}]})


def test_anchors_and_ids_of_inner_schemas_are_followed() -> None:
    schema = {
        "$schema": DRAFT2020,
        "$id": "https://example.com/root",
        "$ref": "inner#word",
        "$defs": {"inner": {"$id": "inner", "$defs": {"w": {"$anchor": "word", "type": "string"}}}},
    }
    assert valid(schema, "a")
    assert not valid(schema, 1)


def test_a_dynamic_reference_with_one_target_is_followed_and_with_more_refused() -> None:
    tree = {
        "$schema": DRAFT2020,
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"next": {"$dynamicRef": "#node"}},
    }
    assert valid(tree, {"next": {"next": {}}})
    assert not valid(tree, {"next": {"next": 1}})
    with pytest.raises(InvalidSchema, match="more than one target"):
        FORMAT.parse(json.dumps({**tree, "$defs": {"x": {"$id": "x", "$dynamicAnchor": "node"}}}))


def test_references_to_other_schemas_go_by_their_names() -> None:
    address = {
        "type": "object",
        "properties": {"zip": {"$ref": "#/definitions/zip"}},
        "definitions": {"zip": {"maxLength": 5}},
    }
    person = {
        "properties": {"home": {"$ref": "address.json"}, "zip": {"$ref": "address.json#/definitions/zip"}}
    }
    assert valid(person, {"home": {"zip": "12345"}, "zip": "1"}, **{"address.json": address})
    assert not valid(person, {"home": {"zip": "123456"}}, **{"address.json": address})
    assert not valid(person, {"zip": "123456"}, **{"address.json": address})


def test_a_reference_is_also_met_through_the_base_of_the_schema() -> None:
    schema = {"$id": "https://example.com/a/b.json", "$ref": "c.json"}
    with_base = {"https://example.com/a/c.json": {"type": "string"}}
    assert valid({**schema, "$schema": DRAFT2020}, "x", **with_base)
    assert not valid({**schema, "$schema": DRAFT2020}, 1, **with_base)


def test_schemas_that_refer_to_different_things_by_one_name_do_not_meet() -> None:
    left = FORMAT.parse('{"$ref": "x"}', {"x": FORMAT.parse('{"type": "string"}')})
    right = FORMAT.parse('{"$ref": "x"}', {"x": FORMAT.parse('{"type": "integer"}')})
    both = FORMAT.parse(
        '{"properties": {"l": {"$ref": "left"}, "r": {"$ref": "right"}}}', {"left": left, "right": right}
    )
    codec = FORMAT.codec(both)
    assert codec.encode({"l": "a", "r": 1})
    for wrong in ({"l": 1}, {"r": "a"}):
        with pytest.raises(Exception, match="not of type"):
            codec.encode(wrong)


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        uri = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in ({"$ref": uri}, {"$schema": uri}):
            with pytest.raises(InvalidSchema):
                FORMAT.parse(json.dumps(schema))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_looks_like_a_reference_in_a_value_is_left_alone() -> None:
    value = {"$ref": "#/nowhere"}
    assert valid({"enum": [value], "default": value}, value)
    assert valid({"properties": {"$ref": {"type": "string"}}}, {"$ref": "a"})
    schemas = [
        FORMAT.parse(json.dumps({"anyOf": [{"const": {"$ref": target}}, {"type": "null"}]}))
        for target in ("dragoman:///x#", "dragoman:///9#")
    ]
    assert not FORMAT.incompatibilities(schemas[0], schemas[0])
    assert FORMAT.incompatibilities(*schemas)


@pytest.mark.parametrize("index", ["1", "01", "-1", "1" * 5_000])
def test_a_reference_to_an_item_that_is_not_there_is_refused(index: str) -> None:
    with pytest.raises(InvalidSchema, match="leads to no schema"):
        FORMAT.parse(json.dumps({"allOf": [{"properties": {"a": {"$ref": f"#/allOf/{index}"}}}]}))


def test_a_reference_may_lead_into_a_keyword_of_ones_own() -> None:
    schema = {
        "$ref": "#/components/schemas/a",
        "components": {"schemas": {"a": {"$ref": "#/components/schemas/b"}, "b": {"type": "null"}}},
    }
    assert valid(schema, None)
    assert not valid(schema, 1)


def test_level_1_removes_layout_and_level_2_orders() -> None:
    text = """ { "required": ["b", "a"], "type": ["object"],
        "properties": {"b": {"enum": [2.0, 1]}, "a": {"anyOf": [{"type": "string"}, {"type": "null"}]}} } """
    schema = FORMAT.parse(text)
    assert schema.normalised(1) == (
        '{"required":["b","a"],"type":["object"],"properties":{"b":{"enum":[2.0,1]},'
        '"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}'
    )
    assert schema.normalised(2) == (
        '{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"}]},"b":{"enum":[1,2]}},'
        '"required":["a","b"],"type":"object"}'
    )


def test_alternatives_that_a_reference_counts_on_keep_their_order() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "null"}], "properties": {"a": {"$ref": "#/anyOf/0"}}}
    normal = FORMAT.parse(FORMAT.parse(json.dumps(schema)).normalised(2))
    assert normal.document["anyOf"] == schema["anyOf"]


def test_the_fingerprint_ignores_layout_order_documentation_and_names_of_references() -> None:
    one = FORMAT.parse(
        '{"type": "object", "title": "A", "required": ["a", "b"], "properties": {"p": {"$ref": "x"}}}',
        {"x": FORMAT.parse('{"type":"string"}')},
    )
    other = FORMAT.parse(
        '{"properties":{"p":{"description":"d","$ref":"y"}},"required":["b","a"],"type":"object"}',
        {"y": FORMAT.parse('{"type": "string", "$comment": "c"}')},
    )
    third = FORMAT.parse(
        '{"properties":{"p":{"$ref":"y"}},"required":["b","a"],"type":"object"}',
        {"y": FORMAT.parse('{"type": "integer"}')},
    )
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != third.fingerprint
    assert one.name == "A"


def test_the_paths_of_a_reason_lead_into_the_schema_that_is_at_fault() -> None:
    def person(zip: dict[str, Any]) -> Any:
        address = FORMAT.parse(json.dumps({"properties": {"zip": zip}}))
        return FORMAT.parse('{"properties": {"home": {"$ref": "address"}}}', {"address": address})

    (reason,) = FORMAT.incompatibilities(person({"maxLength": 2}), person({"maxLength": 3}))
    assert reason.rule == "MAX_LENGTH_DECREASED"
    assert reason.reader_path == reason.writer_path == "address#/properties/zip"
    assert json.loads(reason.counterexample or "") == {"home": {"zip": "aaa"}}


def test_references_that_multiply_are_refused() -> None:
    schema = FORMAT.parse('{"type": "string"}')
    text = '{"properties": {"a": {"$ref": "l"}, "b": {"$ref": "r"}}}'
    with pytest.raises(InvalidSchema, match="more than 500 schemas"):
        for _ in range(20):
            schema = FORMAT.parse(text, {"l": schema, "r": FORMAT.parse(text, {"l": schema, "r": schema})})


def test_schemas_with_very_many_alternatives_get_an_answer_too() -> None:
    def union(name: str) -> str:
        branch = {"type": "object", "properties": {name: {"anyOf": [{"const": each} for each in range(30)]}}}
        return json.dumps({"anyOf": [{**branch, "minProperties": each} for each in range(90)]})

    (reason,) = FORMAT.incompatibilities(FORMAT.parse(union("a")), FORMAT.parse(union("b")))
    assert reason.rule in ("COMPARISON_TOO_LARGE", "COMBINED_TYPE_SUBSCHEMAS_CHANGED")


@pytest.mark.parametrize("wrap", [lambda ref: ref, lambda ref: {"allOf": [ref]}], ids=["$ref", "allOf"])
def test_a_long_chain_of_references_is_refused_and_a_long_list_of_definitions_is_not(wrap: Any) -> None:
    def chain(link: Any) -> str:
        links = {f"d{each}": link({"$ref": f"#/definitions/d{each + 1}"}) for each in range(400)}
        return json.dumps({"$ref": "#/definitions/d0", "definitions": {**links, "d400": {"type": "string"}}})

    with pytest.raises(InvalidSchema, match="without a property"):
        FORMAT.parse(chain(wrap))
    nested = FORMAT.parse(chain(lambda ref: {"properties": {"a": wrap(ref)}}))
    assert not FORMAT.incompatibilities(nested, FORMAT.parse(nested.text))
    other = FORMAT.parse(nested.text.replace('"string"', '"integer"'))
    (reason,) = FORMAT.incompatibilities(other, nested)
    assert reason.rule == "TYPE_CHANGED"


def test_a_schema_that_asks_for_endless_steps_is_refused() -> None:
    def twice(number: int) -> Any:
        inner = {"$ref": f"#/definitions/d{number + 1}"}
        return {"allOf": [inner], "anyOf": [inner]}

    links = {f"d{each}": twice(each) for each in range(40)}
    with pytest.raises(InvalidSchema, match="hold for one value"):
        FORMAT.parse(json.dumps({"$ref": "#/definitions/d0", "definitions": {**links, "d40": {}}}))


def test_what_draft_7_ignores_beside_a_reference_is_not_looked_at() -> None:
    schema = {
        "$ref": "#/definitions/a",
        "properties": {"x": {"$ref": "nowhere"}},
        "definitions": {"a": {"type": "null"}},
    }
    assert valid(schema, None)
    assert not valid(schema, {})
    with pytest.raises(InvalidSchema):
        FORMAT.parse(json.dumps({**schema, "$schema": DRAFT2020}))
    assert not valid({"$ref": "#/properties/x", "properties": {"x": {"type": "null"}}}, 1)
