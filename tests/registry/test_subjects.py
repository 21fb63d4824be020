"""The subject API byte for byte: bodies, statuses, codes, messages, media types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, ORDER_WITH_TOTAL, avro

from dragoman.registry.http.server import Server, ServerOptions

V1 = json.loads(ORDER.text)
COMPACT = json.dumps(V1, separators=(",", ":"))


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        yield client


def body(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": schema.text if hasattr(schema, "text") else schema, **more}


def register(api: httpx.Client, subject: str, schema: Any, **more: Any) -> int:
    answer = api.post(f"/subjects/{quote(subject, safe='')}/versions", json=body(schema, **more))
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def refused(answer: httpx.Response, code: int, message: str | None = None) -> None:
    found = answer.json()
    assert set(found) == {"error_code", "message"}
    assert found["error_code"] == code
    assert answer.status_code == int(str(code)[:3])
    if message is not None:
        assert found["message"] == message


def test_the_root_answers_with_an_empty_object(api: httpx.Client) -> None:
    assert api.get("/").json() == api.post("/").json() == {}


def test_registering_answers_with_the_id_alone_unless_more_is_welcome(api: httpx.Client) -> None:
    answer = api.post("/subjects/orders-value/versions", json=body(ORDER))
    assert answer.json() == {"id": 1}
    assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    more = api.post(
        "/subjects/orders-value/versions",
        json=body(ORDER),
        headers={"Confluent-Accept-Unknown-Properties": "true"},
    ).json()
    assert (more["id"], more["version"], more["subject"], more["schema"]) == (1, 1, "orders-value", COMPACT)
    assert more["guid"]


def test_a_version_is_shown_as_clients_expect_it(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    shown = api.get("/subjects/orders-value/versions/1").json()
    guid = shown.pop("guid")
    assert shown == {"subject": "orders-value", "version": 1, "id": 1, "schema": COMPACT}
    for number in ("latest", "-1"):
        assert api.get(f"/subjects/orders-value/versions/{number}").json()["version"] == 1
    assert api.get("/schemas/ids/1").json() == {"schema": COMPACT, "guid": guid}
    assert api.get("/schemas/ids/1/schema").text == COMPACT
    assert api.get("/subjects/orders-value/versions/1/schema").text == COMPACT
    assert api.get("/schemas/ids/1/subjects").json() == ["orders-value"]
    assert api.get("/schemas/ids/1/versions").json() == [{"subject": "orders-value", "version": 1}]
    assert api.get(f"/schemas/guids/{guid}").json() == {"schema": COMPACT, "guid": guid}
    assert api.get(f"/schemas/guids/{guid}/ids").json() == [{"context": ".", "id": 1}]
    assert api.get("/schemas/ids/1?fetchMaxId=true").json()["maxId"] == 1


def test_other_types_name_themselves(api: httpx.Client) -> None:
    register(api, "things-value", '{"type": "object"}', schemaType="JSON")
    assert api.get("/schemas/ids/1").json()["schemaType"] == "JSON"
    assert api.get("/schemas/types").json() == ["AVRO", "JSON", "PROTOBUF"]
    assert api.get("/schemas/types?all=false").json() == ["AVRO", "JSON", "PROTOBUF"]
    assert api.get("/schemas/types?all=true").json() == ["AVRO", "JSON", "PROTOBUF", "THRIFT"]


def test_a_look_up_finds_the_version_or_says_what_is_missing(api: httpx.Client) -> None:
    refused(api.post("/subjects/orders-value", json=body(ORDER)), 40401, "Subject 'orders-value' not found.")
    register(api, "orders-value", ORDER)
    found = api.post("/subjects/orders-value", json=body(ORDER)).json()
    assert (found["subject"], found["id"], found["version"], found["schema"]) == (
        "orders-value",
        1,
        1,
        COMPACT,
    )
    refused(api.post("/subjects/orders-value", json=body(ORDER_WITH_NOTE)), 40403, "Schema not found")


def test_what_is_missing_has_its_code_and_message(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    refused(api.get("/subjects/nothing/versions"), 40401, "Subject 'nothing' not found.")
    refused(api.get("/subjects/nothing/versions/1"), 40401, "Subject 'nothing' not found.")
    refused(api.get("/subjects/orders-value/versions/9"), 40402, "Version 9 not found.")
    refused(api.get("/schemas/ids/77"), 40403, "Schema 77 not found")
    refused(api.get("/schemas/guids/00000000-0000-0000-0000-000000000000"), 40403)
    refused(
        api.get("/subjects/orders-value/versions/first"),
        42202,
        "The specified version 'first' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )
    refused(api.delete("/subjects/nothing"), 40401)
    assert api.get("/no/such/place").json() == {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert api.put("/subjects").status_code == 405


def test_an_incompatible_schema_is_refused_in_the_known_words(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    answer = api.post("/subjects/orders-value/versions", json=body(ORDER_WITH_TOTAL))
    refused(answer, 40901)
    message = answer.json()["message"]
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "orders-value", '
        "details: [{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'"
    )
    assert message.endswith(
        f"{{oldSchemaVersion: 1}}, {{oldSchema: '{COMPACT}'}}, "
        "{validateFields: 'false', compatibility: 'BACKWARD'}]"
    )


def test_the_older_conflict_code_is_a_switch() -> None:
    options = ServerOptions(store="sqlite://:memory:", port=0, short_conflict_code=True)
    with Server(options) as server, httpx.Client(base_url=server.url) as api:
        register(api, "orders-value", ORDER)
        answer = api.post("/subjects/orders-value/versions", json=body(ORDER_WITH_TOTAL))
        assert (answer.status_code, answer.json()["error_code"]) == (409, 409)


def test_an_invalid_schema_is_refused(api: httpx.Client) -> None:
    refused(api.post("/subjects/orders-value/versions", json=body('{"type": "nonsense"}')), 42201)
    refused(api.post("/subjects/orders-value/versions", json={}), 42201)
    refused(api.post("/subjects/orders-value/versions", json=body("x", schemaType="COBOL")), 42201)
    refused(api.post("/subjects/orders-value/versions", content=b"{"), 400)
    refused(api.post("/subjects/orders-value/versions", json={"schema": 7}), 422)


def test_the_content_type_does_not_matter(api: httpx.Client) -> None:
    for media_type in ("", "application/octet-stream", "application/json; charset=utf-8", "text/plain"):
        answer = api.post(
            "/subjects/orders-value/versions",
            content=json.dumps(body(ORDER)),
            headers={"Content-Type": media_type},
        )
        assert answer.json() == {"id": 1}


def test_compatibility_is_checked_against_one_version_or_all(api: httpx.Client) -> None:
    latest = "/compatibility/subjects/orders-value/versions/latest"
    assert api.post(latest, json=body(ORDER)).json() == {"is_compatible": True}
    refused(api.post("/compatibility/subjects/orders-value/versions/1", json=body(ORDER)), 40402)
    register(api, "orders-value", ORDER)
    assert api.post(latest, json=body(ORDER_WITH_TOTAL)).json() == {"is_compatible": False}
    everything = "/compatibility/subjects/orders-value/versions"
    assert api.post(everything, json=body(ORDER_WITH_NOTE)).json() == {"is_compatible": True}
    verbose = api.post(f"{latest}?verbose=true", json=body(ORDER_WITH_TOTAL)).json()
    assert verbose["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    assert api.post(f"{latest}?verbose=true", json=body(ORDER_WITH_NOTE)).json() == {
        "is_compatible": True,
        "messages": [],
    }
    refused(api.post(latest, json=body("nonsense")), 42201)
    told = api.post(f"{latest}?verbose=True", json=body("nonsense"))
    assert told.status_code == 200
    assert told.json()["is_compatible"] is False
    assert told.json()["messages"]


def test_configuration_is_set_read_and_cleared(api: httpx.Client) -> None:
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    refused(
        api.get("/config/orders-value"),
        40408,
        "Subject 'orders-value' does not have subject-level compatibility configured",
    )
    assert api.get("/config/orders-value?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}
    assert api.put("/config/orders-value", json={"compatibility": "FULL"}).json() == {"compatibility": "FULL"}
    assert api.get("/config/orders-value").json() == {"compatibilityLevel": "FULL"}
    assert api.put("/config", json={"compatibility": "none"}).json() == {"compatibility": "NONE"}
    assert api.get("/config").json() == {"compatibilityLevel": "NONE"}
    refused(api.put("/config", json={"compatibility": "SIDEWAYS"}), 42203)
    assert api.delete("/config/orders-value").json() == {"compatibilityLevel": "FULL"}
    refused(api.delete("/config/orders-value"), 40401, "Subject 'orders-value' not found.")
    assert api.get("/config/orders-value?defaultToGlobal=true").json() == {"compatibilityLevel": "NONE"}
    api.delete("/config")
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_deleting_is_done_in_two_steps(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    register(api, "orders-value", ORDER_WITH_NOTE)
    refused(
        api.delete("/subjects/orders-value?permanent=true"),
        40405,
        "Subject 'orders-value' was not deleted first before being permanently deleted",
    )
    refused(
        api.delete("/subjects/orders-value/versions/1?permanent=true"),
        40407,
        "Subject 'orders-value' Version 1 was not deleted first before being permanently deleted",
    )
    assert api.delete("/subjects/orders-value/versions/1").json() == 1
    refused(
        api.delete("/subjects/orders-value/versions/1"),
        40406,
        "Subject 'orders-value' Version 1 was soft deleted. Set permanent=true to delete permanently",
    )
    assert api.get("/subjects/orders-value/versions").json() == [2]
    assert api.get("/subjects/orders-value/versions?deleted=true").json() == [1, 2]
    assert api.get("/subjects/orders-value/versions?deletedOnly=true").json() == [1]
    assert api.get("/subjects/orders-value/versions?deletedAsNegative=true").json() == [-1, 2]
    refused(api.get("/subjects/orders-value/versions/1"), 40402)
    assert api.get("/subjects/orders-value/versions/1?deleted=true").json()["deleted"] is True
    assert api.get("/schemas/ids/1").status_code == 200
    assert api.delete("/subjects/orders-value").json() == [2]
    assert api.get("/subjects").json() == []
    assert api.get("/subjects?deleted=true").json() == ["orders-value"]
    assert api.get("/subjects?deletedOnly=true").json() == ["orders-value"]
    refused(
        api.delete("/subjects/orders-value"),
        40404,
        "Subject 'orders-value' was soft deleted. Set permanent=true to delete permanently",
    )
    assert api.delete("/subjects/orders-value?permanent=true").json() == [1, 2]
    assert api.get("/subjects?deleted=true").json() == []
    refused(api.get("/schemas/ids/1"), 40403)


def test_a_hidden_schema_registered_again_gets_a_new_version_and_keeps_its_id(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    api.delete("/subjects/orders-value")
    assert register(api, "orders-value", ORDER) == 1
    assert api.get("/subjects/orders-value/versions").json() == [2]


def test_references_are_resolved_kept_and_protected(api: httpx.Client) -> None:
    register(api, "customer", avro(("name", "string"), name="Customer"))
    order = avro(("id", "long"), ("customer", "shop.Customer"))
    references = [{"name": "shop.Customer", "subject": "customer", "version": 1}]
    assert register(api, "orders-value", order, references=references) == 2
    assert api.get("/schemas/ids/2").json()["references"] == references
    assert api.get("/subjects/customer/versions/1/referencedby").json() == [2]
    refused(
        api.delete("/subjects/customer/versions/1"),
        42206,
        "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=customer,version=1}.",
    )
    refused(api.post("/subjects/lost/versions", json=body(order)), 42201)


def test_a_schema_is_shown_with_its_references_written_out(api: httpx.Client) -> None:
    register(api, "customer", avro(("name", "string"), name="Customer"))
    order = avro(("id", "long"), ("buyer", "shop.Customer"), ("seller", ["null", "shop.Customer"], None))
    references = [{"name": "shop.Customer", "subject": "customer", "version": 1}]
    register(api, "orders-value", order, references=references)
    text = api.get("/schemas/ids/2?format=resolved").json()["schema"]
    _, buyer, seller = json.loads(text)["fields"]
    assert buyer["type"]["fields"] == [{"name": "name", "type": "string"}]
    assert seller["type"] == ["null", "shop.Customer"]
    assert register(api, "whole-value", text) == 3
    assert api.get("/schemas/ids/1?format=unheard-of").json()["schema"].startswith("{")


def test_modes_guard_writing(api: httpx.Client) -> None:
    assert api.get("/mode").json() == {"mode": "READWRITE"}
    register(api, "orders-value", ORDER)
    assert api.put("/mode/orders-value", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert register(api, "orders-value", ORDER) == 1
    refused(api.post("/subjects/orders-value/versions", json=body(ORDER_WITH_NOTE)), 42205)
    refused(api.delete("/subjects/orders-value"), 42205)
    refused(api.get("/mode/other"), 40409)
    assert api.get("/mode/other?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    assert api.delete("/mode/orders-value").json() == {"mode": "READONLY"}
    refused(api.put("/mode", json={"mode": "SOMETIMES"}), 42204)
    register(api, "orders-value", ORDER_WITH_NOTE)


def test_an_import_keeps_ids_and_versions(api: httpx.Client) -> None:
    register(api, "here-value", ORDER)
    refused(api.put("/mode", json={"mode": "IMPORT"}), 42205, "Cannot import since found existing subjects")
    refused(api.post("/subjects/there-value/versions", json=body(ORDER, id=40, version=3)), 42205)
    api.put("/mode/there-value", json={"mode": "IMPORT"})
    assert register(api, "there-value", ORDER_WITH_TOTAL, id=40, version=3) == 40
    assert register(api, "there-value", ORDER_WITH_TOTAL, id=40, version=3) == 40
    assert register(api, "there-value", ORDER_WITH_NOTE, id=41, version=5) == 41
    assert api.get("/subjects/there-value/versions").json() == [3, 5]
    refused(api.post("/subjects/there-value/versions", json=body('"int"', id=40, version=6)), 42205)
    api.delete("/mode/there-value")
    assert register(api, "there-value", ORDER) == 1
    assert api.get("/subjects/there-value/versions").json() == [3, 5, 6]
    assert register(api, "next-value", '"string"') == 42


def test_contexts_are_separate_rooms(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER_WITH_NOTE)
    assert register(api, ":.sales:orders-value", ORDER) == 1
    assert api.get("/contexts").json() == [".", ".sales"]
    assert api.get("/subjects").json() == ["orders-value", ":.sales:orders-value"]
    assert api.get("/subjects?subjectPrefix=:.sales:").json() == [":.sales:orders-value"]
    assert api.get("/subjects?subjectPrefix=ord").json() == ["orders-value"]
    assert api.get("/subjects?subjectPrefix=:*:ord").json() == ["orders-value", ":.sales:orders-value"]
    inside = api.get("/contexts/.sales/subjects/orders-value/versions/1").json()
    assert (inside["subject"], inside["schema"]) == (":.sales:orders-value", COMPACT)
    assert api.get("/contexts/.sales/subjects").json() == [":.sales:orders-value"]
    assert api.get("/contexts/.sales/schemas/ids/1").json()["schema"] == COMPACT
    assert api.get("/schemas/ids/1").json()["schema"] != COMPACT
    assert api.get("/schemas/ids/1?subject=:.sales:orders-value").json()["schema"] == COMPACT
    assert api.put("/contexts/.sales/config", json={"compatibility": "FULL"}).status_code == 200
    assert api.get("/config/:.sales:orders-value?defaultToGlobal=true").json()["compatibilityLevel"] == "FULL"
    assert api.get("/config/orders-value?defaultToGlobal=true").json()["compatibilityLevel"] == "BACKWARD"
    refused(api.delete("/contexts/.sales"), 42211)
    api.delete("/contexts/.sales/subjects/orders-value")
    api.delete("/contexts/.sales/subjects/orders-value?permanent=true")
    assert api.delete("/contexts/.sales").status_code == 204
    assert api.get("/contexts").json() == ["."]


def test_metadata_and_rules_are_kept_and_inherited(api: httpx.Client) -> None:
    metadata = {"properties": {"owner": "ada", "application.major.version": "1"}}
    rules = {"domainRules": [{"name": "positive", "kind": "CONDITION", "type": "CEL", "expr": "id > 0"}]}
    register(api, "orders-value", ORDER, metadata=metadata, ruleSet=rules)
    shown = api.get("/subjects/orders-value/versions/1").json()
    assert (shown["metadata"], shown["ruleSet"]) == (metadata, rules)
    assert register(api, "orders-value", ORDER) == 1
    register(api, "orders-value", ORDER_WITH_NOTE)
    second = api.get("/subjects/orders-value/versions/2").json()
    assert (second["metadata"], second["ruleSet"]) == (metadata, rules)
    register(api, "orders-value", ORDER_WITH_NOTE, metadata={"properties": {"owner": "bob"}})
    by_owner = api.get("/subjects/orders-value/metadata", params={"key": "owner", "value": "ada"}).json()
    assert by_owner["version"] == 2
    refused(api.get("/subjects/orders-value/metadata", params={"key": "owner", "value": "eve"}), 40403)
    assert api.get("/schemas?ruleType=CEL&latestOnly=true").json()[0]["version"] == 3
    assert api.get("/schemas?ruleType=JSONATA").json() == []


def test_defaults_and_overrides_complete_metadata(api: httpx.Client) -> None:
    api.put(
        "/config/orders-value",
        json={
            "defaultMetadata": {"properties": {"team": "sales", "tier": "low"}},
            "overrideMetadata": {"properties": {"tier": "high"}},
        },
    )
    register(api, "orders-value", ORDER, metadata={"properties": {"team": "ops"}})
    shown = api.get("/subjects/orders-value/versions/1").json()["metadata"]
    assert shown == {"properties": {"team": "ops", "tier": "high"}}


def test_only_versions_of_one_compatibility_group_are_compared(api: httpx.Client) -> None:
    api.put("/config/orders-value", json={"compatibilityGroup": "major"})
    register(api, "orders-value", ORDER, metadata={"properties": {"major": "1"}})
    total = body(ORDER_WITH_TOTAL, metadata={"properties": {"major": "1"}})
    refused(api.post("/subjects/orders-value/versions", json=total), 40901)
    register(api, "orders-value", ORDER_WITH_TOTAL, metadata={"properties": {"major": "2"}})


def test_an_alias_stands_for_a_subject(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    api.put("/config/old-name", json={"alias": "orders-value"})
    assert api.get("/subjects/old-name/versions/latest").json()["subject"] == "orders-value"
    register(api, "old-name", ORDER_WITH_NOTE)
    assert api.get("/subjects/orders-value/versions").json() == [1, 2]
    assert api.get("/subjects/old-name/versions/latest").json()["version"] == 2
    assert api.get("/subjects").json() == ["orders-value"]


def test_an_alias_is_taken_back_by_an_empty_one(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    api.put("/config/orders-value", json={"alias": "elsewhere"})
    refused(api.get("/subjects/orders-value/versions"), 40401)
    api.put("/config/orders-value", json={"alias": ""})
    assert api.get("/subjects/orders-value/versions").json() == [1]


@pytest.mark.parametrize(
    ("type", "text", "place"),
    [
        ("PROTOBUF", 'syntax = "proto3";\nmessage M {\n  int32 a = ;\n}', "line 3, column 13"),
        ("THRIFT", "struct S {\n  1: i32 a,\n  1: i32 b\n}", "line 3, column 3"),
        ("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "B"}]}', "/fields/0/type"),
        ("JSON", '{"type": "nonsense"}', "/type"),
    ],
)
def test_what_is_wrong_with_a_schema_also_says_where(
    api: httpx.Client, type: str, text: str, place: str
) -> None:
    answer = api.post("/subjects/s/versions", json={"schema": text, "schemaType": type})
    refused(answer, 42201)
    assert place in answer.json()["message"]


def test_lists_come_in_pages(api: httpx.Client) -> None:
    for number in range(5):
        register(api, f"s{number}", ORDER)
    assert api.get("/subjects?offset=1&limit=2").json() == ["s1", "s2"]
    assert api.get("/subjects?limit=-1").json() == [f"s{number}" for number in range(5)]
    assert [each["subject"] for each in api.get("/schemas?offset=3").json()] == ["s3", "s4"]
    assert api.get("/schemas/ids/1/subjects?limit=1&offset=4").json() == ["s4"]
    assert api.get("/subjects?limit=many").status_code == 422


def test_normalisation_can_be_asked_for_or_configured(api: httpx.Client) -> None:
    one = '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":{"type":"long"}}]}'
    other = '{"name":"Order","namespace":"shop","type":"record","fields":[{"type":"long","name":"id"}]}'
    api.put("/config", json={"normalize": True})
    assert register(api, "orders-value", one) == register(api, "orders-value", other)
    found = api.post("/subjects/orders-value?normalize=true", json=body(other)).json()
    assert found["version"] == 1


def test_force_skips_the_compatibility_check(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER)
    answer = api.post("/subjects/orders-value/versions?force=true", json=body(ORDER_WITH_TOTAL))
    assert answer.json() == {"id": 2}


def test_the_version_in_a_request_must_be_the_next_one(api: httpx.Client) -> None:
    register(api, "orders-value", ORDER, version=1)
    refused(api.post("/subjects/orders-value/versions", json=body(ORDER_WITH_NOTE, version=7)), 42201)
    register(api, "orders-value", ORDER_WITH_NOTE, version=2)


def test_the_server_tells_about_itself(api: httpx.Client) -> None:
    assert set(api.get("/v1/metadata/version").json()) == {"version", "commitId"}
    assert set(api.get("/v1/metadata/id").json()) == {"scope", "id"}
    assert api.get("/v1/metadata/deployment").status_code == 200


@pytest.mark.parametrize("alias", [":no-end", "a\0b", " "])
def test_an_alias_that_is_no_name_is_refused(api: httpx.Client, alias: str) -> None:
    register(api, "orders-value", ORDER)
    refused(api.put("/config/old-name", json={"alias": alias}), 42208)
    assert api.get("/subjects/orders-value/versions").json() == [1]


def test_importing_a_schema_again_finds_it_and_a_second_version_of_it_is_refused(api: httpx.Client) -> None:
    api.put("/mode/there-value", json={"mode": "IMPORT"})
    assert register(api, "there-value", ORDER, id=40) == 40
    assert register(api, "there-value", ORDER, id=40) == 40
    assert api.get("/subjects/there-value/versions").json() == [1]
    refused(
        api.post("/subjects/there-value/versions", json=body(ORDER, id=40, version=2)),
        42205,
        "Subject there-value has this schema already, as version 1.",
    )


CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}],
}
WITH_CUSTOMER = {"type": "record", "name": "Sale", "fields": [{"name": "by", "type": "shop.Customer"}]}


def referring(version: int, subject: str = "customer", name: str = "shop.Customer") -> list[dict[str, Any]]:
    return [{"name": name, "subject": subject, "version": version}]


def test_a_reference_to_the_latest_version_keeps_the_number_that_it_had(api: httpx.Client) -> None:
    """What an id stands for never changes."""
    register(api, "customer", json.dumps(CUSTOMER))
    made = register(api, "sale", json.dumps(WITH_CUSTOMER), references=referring(-1))
    assert api.get(f"/schemas/ids/{made}").json()["references"] == referring(1)
    assert api.get("/subjects/sale/versions/1").json()["references"] == referring(1)
    before = api.get(f"/schemas/ids/{made}?format=resolved").json()
    more = {"name": "note", "type": "string", "default": ""}
    register(api, "customer", json.dumps(CUSTOMER | {"fields": [*CUSTOMER["fields"], more]}))
    assert api.get(f"/schemas/ids/{made}?format=resolved").json() == before
    assert register(api, "sale", json.dumps(WITH_CUSTOMER), references=referring(1)) == made
    newer = register(api, "sale", json.dumps(WITH_CUSTOMER), references=referring(-1))
    assert newer != made
    assert api.get(f"/schemas/ids/{newer}").json()["references"] == referring(2)
    for version in (1, 2):
        assert (
            api.get(f"/subjects/customer/versions/{version}/referencedby").json()
            == [[made], [newer]][version - 1]
        )


def test_a_known_schema_is_refused_if_what_it_refers_to_is_gone(api: httpx.Client) -> None:
    """Also by the server that has just parsed it, and if the reference leads there through another schema."""
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "of", "type": "Sale"}]}
    register(api, "customer", json.dumps(CUSTOMER))
    register(api, "sale", json.dumps(WITH_CUSTOMER), references=referring(1))
    register(api, "basket", json.dumps(basket), references=referring(1, "sale", "Sale"))
    for subject in ("basket", "sale", "customer"):
        api.delete(f"/subjects/{subject}").raise_for_status()
    api.delete("/subjects/customer?permanent=true").raise_for_status()
    for subject, schema, references in (
        ("sale", WITH_CUSTOMER, referring(1)),
        ("other", WITH_CUSTOMER, referring(1)),
        ("basket", basket, referring(1, "sale", "Sale")),
    ):
        body = {"schema": json.dumps(schema), "references": references}
        refused = api.post(f"/subjects/{subject}/versions", json=body)
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)
        assert "customer" in refused.json()["message"]
