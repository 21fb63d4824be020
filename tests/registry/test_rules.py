"""Metadata, rule sets and the settings that look at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, avro

from dragoman.core.schema import Schema
from dragoman.registry.fields import outer_fields
from dragoman.registry.http.server import Server

RULE = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL", "expr": "value"}


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def post(api: httpx.Client, schema: Schema, **more: Any) -> httpx.Response:
    return api.post("/subjects/s/versions", json={"schema": schema.text, **more})


@pytest.mark.parametrize(
    ("part", "value", "code"),
    [
        ("metadata", {"properties": 7}, 422),
        ("metadata", {"properties": {"a": ["b"]}}, 422),
        ("metadata", {"tags": {"a": [{}]}}, 422),
        ("metadata", {"sensitive": "all"}, 422),
        ("ruleSet", {"domainRules": "x"}, 42210),
        ("ruleSet", {"domainRules": ["x"]}, 42210),
        ("ruleSet", {"domainRules": [{"kind": "TRANSFORM"}]}, 42210),
        ("ruleSet", {"migrationRules": [{**RULE, "mode": "SOMETIMES"}]}, 42210),
    ],
)
def test_what_has_not_the_shape_of_metadata_or_rules_is_refused(
    api: httpx.Client, part: str, value: Any, code: int
) -> None:
    answer = post(api, ORDER, **{part: value})
    assert (answer.status_code, answer.json()["error_code"]) == (422, code)
    setting = {"metadata": "defaultMetadata", "ruleSet": "overrideRuleSet"}[part]
    assert api.put("/config/s", json={setting: value}).json()["error_code"] == code
    assert api.get("/subjects").json() == []


def test_rules_are_looked_at_closely_where_it_is_asked_for(api: httpx.Client) -> None:
    careless = {"domainRules": [{"name": "later"}]}
    assert post(api, ORDER, ruleSet=careless).status_code == 200
    api.put("/config/s", json={"validateRules": True})
    for rules in (
        careless,
        {"domainRules": [{**RULE, "mode": "UPGRADE"}]},
        {"migrationRules": [RULE]},
        {"domainRules": [RULE, RULE]},
    ):
        assert post(api, ORDER_WITH_NOTE, ruleSet=rules).json()["error_code"] == 42210
    assert post(api, ORDER_WITH_NOTE, ruleSet={"domainRules": [RULE]}).status_code == 200


def test_reserved_fields_are_kept_free_where_it_is_asked_for(api: httpx.Client) -> None:
    reserved = {"properties": {"confluent:reserved": "ssn, birthday"}}
    api.put("/config/s", json={"validateFields": True, "compatibility": "NONE"})
    refused = post(api, avro(("id", "long"), ("ssn", "string")), metadata=reserved)
    assert refused.status_code == 409
    assert "RESERVED_FIELD_CONFLICTS_WITH_FIELD" in refused.json()["message"]
    assert post(api, ORDER, metadata=reserved).status_code == 200
    fewer = {"properties": {"confluent:reserved": "ssn"}}
    checked = api.post(
        "/compatibility/subjects/s/versions/latest?verbose=true",
        json={"schema": ORDER.text, "metadata": fewer},
    ).json()
    assert not checked["is_compatible"]
    assert "RESERVED_FIELD_REMOVED" in checked["messages"][0]
    api.put("/config/s", json={"validateFields": False})
    assert post(api, avro(("id", "long"), ("ssn", "string")), metadata=fewer).status_code == 200


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("AVRO", avro(("a", "long"), ("b", "string")).text),
        ("JSON", '{"properties": {"a": {"properties": {"c": {}}}, "b": true}}'),
        ("PROTOBUF", 'syntax = "proto3";\n\nmessage O {\n  int64 a = 1;\n  string b = 2;\n}\n'),
        ("THRIFT", "struct O {\n  1: i64 a;\n  2: string b;\n}\n"),
    ],
)
def test_the_outer_fields_of_every_format_are_known(type: str, text: str) -> None:
    assert outer_fields(type, text) == {"a", "b"}


def test_settings_that_cannot_be_kept_to_are_refused(api: httpx.Client) -> None:
    assert api.put("/config/s", json={"validateNewSchemas": False}).status_code == 422
    assert api.put("/config/s", json={"validateNewSchemas": True}).status_code == 200
    refused = api.put("/config/s", json={"compatibilityPolicy": "LOGICAL"}).json()
    assert (refused["error_code"], "policy" in refused["message"]) == (42203, True)


def check(api: httpx.Client, schema: Schema) -> bool:
    answer = api.post("/compatibility/subjects/s/versions", json={"schema": schema.text})
    return bool(answer.json()["is_compatible"])


def test_a_check_takes_over_what_registering_would(api: httpx.Client) -> None:
    api.put("/config/s", json={"compatibilityGroup": "major", "validateFields": True})
    metadata = {"properties": {"major": "1", "confluent:reserved": "note"}}
    assert post(api, ORDER, metadata=metadata).status_code == 200
    refused, accepted = avro(("id", "string")), avro(("id", "long"), ("more", "long", 0))
    assert (check(api, refused), post(api, refused).status_code) == (False, 409)
    assert (check(api, ORDER_WITH_NOTE), post(api, ORDER_WITH_NOTE).status_code) == (False, 409)
    assert (check(api, accepted), post(api, accepted).status_code) == (True, 200)
