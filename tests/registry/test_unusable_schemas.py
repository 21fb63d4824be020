"""Schemas that nobody can use: refused on every route, with a status of the client's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from dragoman.registry.http.server import Server

HALF = "\\ud800"


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60.0) as client:
        client.put("/mode/imported", json={"mode": "IMPORT"})
        yield client


def everywhere(api: httpx.Client, type: str, text: str) -> dict[str, httpx.Response]:
    """The answers of all routes that take a schema."""
    subject: dict[str, Any] = {"schema": text, "schemaType": type}
    contract = {"schema": text, "type": type}
    entry = {"version": 1, "id": 900, "type": type, "schema": text}
    bundle = {"format": 1, "contracts": [{"name": "bundled", "versions": [entry]}]}
    return {
        "register": api.post("/subjects/s/versions", json=subject),
        "normalised": api.post("/subjects/s/versions?normalize=true", json=subject),
        "forced": api.post("/subjects/s/versions?force=true", json=subject),
        "find": api.post("/subjects/there", json=subject),
        "check": api.post("/compatibility/subjects/there/versions", json=subject),
        "check one": api.post("/compatibility/subjects/there/versions/latest?verbose=true", json=subject),
        "contract": api.post("/contracts/s", json=contract),
        "contract find": api.post("/contracts/there/versions", json=contract),
        "contract check": api.post("/contracts/there/check", json=contract),
        "openschema": api.post("/openschema/v1/subjects/s", json={"name": "s", "schema": text}),
        "import": api.post("/subjects/imported/versions", json={**subject, "id": 800}),
        "bundle": api.post("/import", json=bundle),
    }


HALVES = {
    "AVRO": [
        f'{{"type": "string", "doc": "{HALF}"}}',
        f'{{"type": "string", "{HALF}": 1}}',
        '{"type": "string", "x": [["\\udc00"]]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string", "default": "\\ud800"}]}',
        f'{{"type": "enum", "name": "E", "symbols": ["{HALF}"]}}',
        '{"type": "string", "x": ' + "[" * 1500 + f'"{HALF}"' + "]" * 1500 + "}",
    ],
    "JSON": [
        f'{{"title": "{HALF}"}}',
        f'{{"properties": {{"{HALF}": {{}}}}}}',
        f'{{"enum": ["{HALF}"]}}',
        f'{{"pattern": "{HALF}"}}',
        f'{{"default": "{HALF}"}}',
    ],
    "PROTOBUF": [
        f'syntax = "proto3"; option java_package = "{HALF}"; message M {{}}',
        f'syntax = "proto2"; message M {{ optional string a = 1 [default = "{HALF}"]; }}',
    ],
    "THRIFT": [
        f'struct S {{ 1: string a = "{HALF}" }}',
        f'struct S {{ 1: string a }} (note = "{HALF}")',
    ],
}


@pytest.mark.parametrize(("type", "text"), [(type, text) for type in HALVES for text in HALVES[type]])
def test_half_a_character_is_refused(api: httpx.Client, type: str, text: str) -> None:
    api.post("/subjects/there/versions", json={"schema": '"string"'})
    for route, answer in everywhere(api, type, text).items():
        # What another registry accepted is not judged again.
        allowed = (200, 422) if route in ("import", "bundle", "check one") else (422,)
        assert answer.status_code in allowed, (route, answer.text)


def test_whole_characters_are_welcome(api: httpx.Client) -> None:
    for type, text in (
        ("AVRO", '{"type": "string", "doc": "\\ud83d\\ude00 \\\\ud800"}'),
        ("JSON", '{"title": "\\ud83d\\ude00 \\\\ud800"}'),
    ):
        body = {"schema": text, "schemaType": type}
        assert api.post(f"/subjects/{type}/versions", json=body).status_code == 200
        assert json.loads(api.get(f"/subjects/{type}/versions/1").json()["schema"]) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": NaN}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": Infinity}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "float", "default": -Infinity}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": 1e999}]}',
        '{"type": "string", "limit": NaN}',
    ],
)
def test_avro_schemas_that_cannot_be_meant_are_refused(api: httpx.Client, text: str) -> None:
    for path in ("/subjects/s/versions", "/contracts/s"):
        answer = api.post(path, json={"schema": text})
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
        assert "'type'" not in answer.json()["message"]


def nested(before: str, within: str, after: str) -> Callable[[int], str]:
    return lambda levels: before * levels + within + after * levels


DEEP: dict[str, tuple[str, Callable[[int], str]]] = {
    "avro arrays": ("AVRO", nested('{"type": "array", "items": ', '"int"', "}")),
    "avro types": ("AVRO", nested('{"type": ', '"int"', "}")),
    "avro records": (
        "AVRO",
        lambda levels: (
            "".join(
                f'{{"type": "record", "name": "R{n}", "fields": [{{"name": "a", "type": '
                for n in range(levels)
            )
            + '"int"'
            + "}]}" * levels
        ),
    ),
    "avro properties": (
        "AVRO",
        lambda levels: '{"type": "string", "x": ' + "[" * levels + "]" * levels + "}",
    ),
    "json properties": ("JSON", nested('{"properties": {"a": ', "{}", "}}")),
    "json negations": ("JSON", nested('{"not": ', "{}", "}")),
    "json values": ("JSON", lambda levels: '{"default": ' + "[" * levels + "]" * levels + "}"),
    "json references": (
        "JSON",
        lambda levels: json.dumps(
            {"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(levels)}}
        ).replace(f'"#/$defs/d{levels}"', '"#/$defs/d0"'),
    ),
    "protobuf messages": (
        "PROTOBUF",
        lambda levels: (
            'syntax = "proto3"; ' + "".join(f"message M{n} {{" for n in range(levels)) + "}" * levels
        ),
    ),
    "protobuf groups": (
        "PROTOBUF",
        lambda levels: (
            'syntax = "proto2"; message M {'
            + "".join(f"optional group G{n} = 1 {{" for n in range(levels))
            + "}" * levels
            + "}"
        ),
    ),
    "protobuf options": (
        "PROTOBUF",
        lambda levels: (
            'syntax = "proto3"; message M { option (x) = ' + "{a: " * levels + "1" + "}" * levels + "; }"
        ),
    ),
    "thrift lists": (
        "THRIFT",
        lambda levels: "struct S { 1: " + "list<" * levels + "i32" + ">" * levels + " a }",
    ),
    "thrift values": (
        "THRIFT",
        lambda levels: "struct S { 1: list<i32> a = " + "[" * levels + "]" * levels + " }",
    ),
    "thrift names": (
        "THRIFT",
        lambda levels: (
            "".join(f"typedef T{n + 1} T{n} " for n in range(levels))
            + f"typedef i32 T{levels} struct S {{ 1: T0 a }}"
        ),
    ),
}


@pytest.mark.parametrize("levels", [100, 950, 3900])
@pytest.mark.parametrize(("type", "text"), DEEP.values(), ids=DEEP)
def test_deep_nesting_is_taken_or_refused(
    api: httpx.Client, type: str, text: Callable[[int], str], levels: int
) -> None:
    api.put("/config/s", json={"validateFields": True})
    written = text(levels)
    for route, answer in everywhere(api, type, written).items():
        assert answer.status_code in (200, 404, 409, 422), (route, answer.text[:300])
    body = {"schema": written, "schemaType": type, "metadata": {"properties": {"confluent:reserved": "zz"}}}
    assert api.post("/subjects/s/versions", json=body).status_code in (200, 409, 422)
    for path in ("/subjects/s/versions/1?format=resolved", "/contracts/s/compare?from=1&to=1"):
        assert api.get(path).status_code in (200, 404, 422)


@pytest.mark.parametrize("levels", [100, 900, 100_000])
@pytest.mark.parametrize("part", ["metadata", "ruleSet"])
def test_deep_metadata_and_rules_are_taken_or_refused(api: httpx.Client, part: str, levels: int) -> None:
    content = f'{{"schema": "\\"string\\"", "{part}": {{"more": {"[" * levels}1{"]" * levels}}}}}'
    for path in ("/subjects/s/versions", "/subjects/there", "/config/s"):
        method = "PUT" if path.startswith("/config") else "POST"
        text = (
            content.replace(f'"{part}"', f'"override{part[0].upper()}{part[1:]}"')
            if method == "PUT"
            else content
        )
        answer = api.request(method, path, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400, 404, 422), answer.text[:200]
    assert api.post("/subjects/s/versions", json={"schema": '"int"'}).status_code in (200, 409)
