"""How strictly JSON schemas are compared: soundly, unless a policy is set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.registry.schemas import avro

from dragoman.registry.http.server import Server

DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
ARRAY: dict[str, Any] = {"type": "array"}
OBJECT: dict[str, Any] = {"type": "object"}
NUMBERS: dict[str, Any] = {**ARRAY, "contains": {"type": "number"}}
TREE = {"type": "object", "properties": {"child": {"$dynamicRef": "#node"}}}
CLOSED = {**OBJECT, "properties": {"a": {}}}

CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "minContains raised": ({**NUMBERS, "minContains": 1}, {**NUMBERS, "minContains": 2}, False),
    "minContains lowered": ({**NUMBERS, "minContains": 2}, {**NUMBERS, "minContains": 1}, True),
    "maxContains lowered": ({**NUMBERS, "maxContains": 3}, {**NUMBERS, "maxContains": 2}, False),
    "maxContains raised": ({**NUMBERS, "maxContains": 2}, {**NUMBERS, "maxContains": 3}, True),
    "contains added": (ARRAY, NUMBERS, False),
    "contains removed": (NUMBERS, ARRAY, True),
    "contains changed": (NUMBERS, {**ARRAY, "contains": {"type": "string"}}, False),
    "dependentRequired added": (OBJECT, {**OBJECT, "dependentRequired": {"a": ["b"]}}, False),
    "dependentSchemas added": (OBJECT, {**OBJECT, "dependentSchemas": {"a": {"required": ["b"]}}}, False),
    "unevaluatedProperties": (CLOSED, {**CLOSED, "unevaluatedProperties": False}, False),
    "unevaluatedItems": (
        {**ARRAY, "prefixItems": [{}]},
        {**ARRAY, "prefixItems": [{}], "unevaluatedItems": False},
        False,
    ),
    "prefixItems changed": (
        {**ARRAY, "prefixItems": [{"type": "string"}]},
        {**ARRAY, "prefixItems": [{"type": "integer"}]},
        False,
    ),
    "a condition": (
        {**OBJECT, "properties": {"k": {"type": "integer"}}},
        {
            **OBJECT,
            "properties": {"k": {"type": "integer"}},
            "if": {"required": ["k"]},
            "then": {"properties": {"k": {"minimum": 5}}},
        },
        False,
    ),
    "pattern changed": ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}, False),
    "enum widened": ({"enum": ["a"]}, {"enum": ["a", "b"]}, True),
    "enum narrowed": ({"enum": ["a", "b"]}, {"enum": ["a"]}, False),
    "const changed": ({"const": 1}, {"const": 2}, False),
    "not added": ({"type": "string"}, {"type": "string", "not": {"const": "x"}}, False),
    "minProperties raised": ({**OBJECT, "minProperties": 1}, {**OBJECT, "minProperties": 2}, False),
    "propertyNames added": (OBJECT, {**OBJECT, "propertyNames": {"pattern": "^x"}}, False),
    "patternProperties tightened": (
        {**OBJECT, "patternProperties": {"^x": {}}},
        {**OBJECT, "patternProperties": {"^x": {"type": "integer"}}},
        False,
    ),
    "dynamicRef": (
        {"$defs": {"n": {"$dynamicAnchor": "node", **TREE}}, "$ref": "#/$defs/n"},
        {"$defs": {"n": {"$dynamicAnchor": "node", **TREE}}, "$ref": "#/$defs/n", "title": "Tree"},
        True,
    ),
    "uniqueItems added": (ARRAY, {**ARRAY, "uniqueItems": True}, False),
    "number to integer": ({"type": "number"}, {"type": "integer"}, False),
    "integer to number": ({"type": "integer"}, {"type": "number"}, True),
}
OVERLOOKED = (
    "minContains raised",
    "maxContains lowered",
    "contains added",
    "contains changed",
    "propertyNames added",
    "patternProperties tightened",
)
"""By Confluent's registry."""


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"schemaType": "JSON", "schema": json.dumps({**DRAFT, **schema})}


def compatible(api: httpx.Client) -> dict[str, bool]:
    """For each change whether it is allowed, which the check and the registration must agree about."""
    found = {}
    for name, (old, new, _) in CHANGES.items():
        subject = name.replace(" ", "-")
        api.post(f"/subjects/{subject}/versions", json=body(old)).raise_for_status()
        path = f"/compatibility/subjects/{subject}/versions/latest"
        found[name] = api.post(path, json=body(new)).json()["is_compatible"]
        assert (api.post(f"/subjects/{subject}/versions", json=body(new)).status_code == 200) == found[name]
    return found


def test_json_schemas_are_compared_soundly(api: httpx.Client) -> None:
    assert compatible(api) == {name: wanted for name, (_, _, wanted) in CHANGES.items()}
    assert "compatibilityPolicy" not in api.get("/config").json()


def test_the_policy_of_confluents_registry_can_be_chosen(api: httpx.Client) -> None:
    assert api.put("/config", json={"compatibilityPolicy": "STRICT"}).status_code == 200
    assert api.get("/config").json()["compatibilityPolicy"] == "STRICT"
    wanted = {name: wanted or name in OVERLOOKED for name, (_, _, wanted) in CHANGES.items()}
    assert compatible(api) == wanted


def test_a_contract_has_its_own_policy(api: httpx.Client) -> None:
    old, new, _ = CHANGES["contains added"]
    for subject in ("sound", "usual"):
        api.post(f"/subjects/{subject}/versions", json=body(old)).raise_for_status()
    api.put("/config/usual", json={"compatibilityPolicy": "STRICT"})
    assert api.post("/subjects/sound/versions", json=body(new)).status_code == 409
    assert api.post("/subjects/usual/versions", json=body(new)).status_code == 200
    verdicts = api.get("/contracts/usual/compare?from=1&to=2").json()["verdicts"]
    assert verdicts["BACKWARD"]["compatible"] is True
    api.delete("/config/usual")
    verdicts = api.get("/contracts/usual/compare?from=1&to=2").json()["verdicts"]
    assert verdicts["BACKWARD"]["compatible"] is False


def test_avro_is_compared_as_by_all_tools(api: httpx.Client) -> None:
    old, new = avro(("at", "long")), avro(("at", {"type": "long", "logicalType": "timestamp-millis"}))
    api.post("/subjects/s/versions", json={"schema": old.text}).raise_for_status()
    path = "/compatibility/subjects/s/versions/latest"
    assert api.post(path, json={"schema": new.text}).json()["is_compatible"] is True
    api.put("/config/s", json={"compatibilityPolicy": "EXACT"})
    assert api.post(path, json={"schema": new.text}).json()["is_compatible"] is False
