"""Modes: who may write, and whether ids are given or taken. As in Confluent's registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE

from dragoman.registry.http.server import Server, ServerOptions

OTHER_WORDS = json.dumps({**json.loads(ORDER.text), "name": "shop.Order"})


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def post(api: httpx.Client, subject: str, schema: str, **more: Any) -> httpx.Response:
    return api.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})


def refused(answer: httpx.Response, code: int, message: str = "") -> None:
    assert answer.json().get("error_code") == code, answer.text
    assert message in answer.json()["message"]


@pytest.fixture
def importing(store: str) -> Iterator[httpx.Client]:
    """Over each kind of database, with the contract ``s`` and, to import into, ``t``."""
    with Server(ServerOptions(store=store, port=0)) as server, httpx.Client(base_url=server.url) as client:
        assert post(client, "s", ORDER.text).json() == {"id": 1}
        client.put("/mode/t", json={"mode": "IMPORT"})
        yield client


@pytest.mark.parametrize("text", [ORDER.text, OTHER_WORDS])
def test_a_known_schema_is_imported_under_a_second_id(importing: httpx.Client, text: str) -> None:
    api = importing
    assert post(api, "t", text, id=70, version=3).json() == {"id": 70}
    assert post(api, "t", text, id=71, version=4).json() == {"id": 71}
    assert post(api, "t", text, id=71, version=4).json() == {"id": 71}
    assert api.get("/subjects/t/versions").json() == [3, 4]
    for id in (1, 70, 71):
        assert json.loads(api.get(f"/schemas/ids/{id}").json()["schema"])["fields"][0]["name"] == "id"
    assert api.get("/schemas/ids/70/versions").json() == [{"subject": "t", "version": 3}]
    api.delete("/mode/t")
    assert api.post("/subjects/t", json={"schema": text}).json()["version"] == 4
    assert post(api, "t", text).json() == {"id": 71}
    assert post(api, "u", ORDER_WITH_NOTE.text).json() == {"id": 72}


def test_an_import_names_the_next_version_itself(importing: httpx.Client) -> None:
    api = importing
    assert post(api, "t", ORDER.text, id=70).json() == {"id": 70}
    assert post(api, "t", ORDER.text, id=70).json() == {"id": 70}
    assert post(api, "t", ORDER.text, id=71).json() == {"id": 71}
    assert api.get("/subjects/t/versions").json() == [1, 2]


@pytest.mark.parametrize("text", [ORDER.text, OTHER_WORDS])
def test_the_id_of_an_equal_schema_is_taken_over(importing: httpx.Client, text: str) -> None:
    assert post(importing, "t", text, id=1, version=5).json() == {"id": 1}
    users = importing.get("/schemas/ids/1/versions").json()
    assert users == [{"subject": "s", "version": 1}, {"subject": "t", "version": 5}]


def test_an_id_with_other_content_is_refused(importing: httpx.Client) -> None:
    api = importing
    said = "Overwrite new schema with id 1 is not permitted."
    for more in ({}, {"version": 5}):
        refused(post(api, "t", ORDER_WITH_NOTE.text, id=1, **more), 42205, said)
    refused(post(api, "t", ORDER.text, id=1, metadata={"properties": {"a": "1"}}), 42205, said)
    refused(post(api, "t", '{"type": "string"}', id=1, schemaType="JSON"), 42205, said)
    assert api.get("/subjects?subjectPrefix=t").json() == []


def test_an_import_overwrites_no_version(importing: httpx.Client) -> None:
    api = importing
    assert post(api, "t", ORDER.text, id=70, version=3).json() == {"id": 70}
    for text, id in (
        (ORDER_WITH_NOTE.text, 71),
        (ORDER_WITH_NOTE.text, 70),
        (ORDER.text, 72),
        (ORDER.text, 1),
    ):
        refused(post(api, "t", text, id=id, version=3), 42205, "is not permitted")
    assert api.get("/subjects/t/versions").json() == [3]
    shown = api.get("/subjects/t/versions/3").json()
    assert (shown["id"], json.loads(shown["schema"])) == (70, json.loads(ORDER.text))
    assert api.delete("/subjects/t/versions/3").json() == 3
    refused(post(api, "t", ORDER_WITH_NOTE.text, id=71, version=3), 42205, "is not permitted")


@pytest.mark.parametrize("mode", ["IMPORT", "FORWARD"])
def test_an_import_gives_the_id(api: httpx.Client, mode: str) -> None:
    api.put("/mode/t", json={"mode": mode})
    for more in ({}, {"version": 1}, {"id": None}, {"id": -1}):
        said = "Subject t in context . is not in read-write mode"
        refused(post(api, "t", ORDER.text, **more), 42205, said)
    assert api.post("/contracts/t", json={"schema": ORDER.text}).json()["error_code"] == 42205
    assert post(api, "t", ORDER.text, id=9).json() == {"id": 9}
    assert post(api, "t", ORDER.text).json() == {"id": 9}


def test_nothing_is_written_in_a_read_only_mode(api: httpx.Client) -> None:
    post(api, "s", ORDER.text)
    api.put("/config/s", json={"compatibility": "FULL"})
    api.put("/contracts/s/channels/a").raise_for_status()
    openschema = {"name": "s", "schema": json.loads(ORDER.text), "compatibility": "NONE"}
    before = api.get("/subjects/s/versions/1").json()
    api.put("/mode/s", json={"mode": "READONLY"})
    for answer in (
        post(api, "s", ORDER_WITH_NOTE.text),
        post(api, "s", ORDER_WITH_NOTE.text, id=9),
        api.put("/config/s", json={"compatibility": "NONE"}),
        api.put("/config/s", json={"alias": "other"}),
        api.delete("/config/s"),
        api.delete("/subjects/s"),
        api.delete("/subjects/s?permanent=true"),
        api.delete("/subjects/s/versions/1"),
        api.post("/contracts/s", json={"schema": ORDER_WITH_NOTE.text}),
        api.post("/contracts/s/compatibility", json={"compatibility": "NONE"}),
        api.delete("/contracts/s"),
        api.delete("/contracts/s/versions/1"),
        api.put("/contracts/s/channels/b"),
        api.delete("/contracts/s/channels/a"),
    ):
        refused(answer, 42205, "Subject s in context . is in read-only mode")
        assert answer.status_code == 422
    assert api.post("/openschema/v1/subjects/s", json=openschema).status_code >= 400
    assert api.get("/subjects/s/versions/1").json() == before
    assert api.get("/config/s").json() == {"compatibilityLevel": "FULL"}
    assert api.get("/contracts/s").json()["channels"] == ["a"]
    assert post(api, "s", ORDER.text).json() == {"id": 1}
    assert api.put("/config/t", json={"compatibility": "NONE"}).status_code == 200
    assert api.delete("/mode/s").json() == {"mode": "READONLY"}
    assert api.put("/config/s", json={"compatibility": "NONE"}).status_code == 200


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_a_context_may_be_read_only(api: httpx.Client, mode: str) -> None:
    api.put("/mode", json={"mode": mode})
    refused(api.put("/config", json={"compatibility": "NONE"}), 42205, "Context . is in read-only mode")
    refused(api.delete("/config"), 42205)
    refused(api.put("/config/s", json={"compatibility": "NONE"}), 42205)
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    api.put("/mode", json={"mode": "READWRITE"})
    assert api.put("/config", json={"compatibility": "NONE"}).status_code == 200


def test_clearing_what_was_not_set_names_the_subject(api: httpx.Client) -> None:
    for path in ("/config/s", "/mode/s"):
        refused(api.delete(path), 40401, "Subject 's' not found.")
    refused(api.get("/config/s"), 40408)
    refused(api.get("/mode/s"), 40409)


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_of_nothing_is_no_limit(api: httpx.Client, limit: str) -> None:
    for subject in ("a", "b"):
        post(api, subject, ORDER.text)
    assert api.get(f"/subjects?limit={limit}").json() == ["a", "b"]
    assert len(api.get(f"/schemas?limit={limit}").json()) == 2
    assert api.get(f"/schemas/ids/1/subjects?limit={limit}").json() == ["a", "b"]
    assert api.get("/subjects?limit=1").json() == ["a"]


@pytest.mark.parametrize("type", ["avro", "Json", "protoBuf", "thrift", "NONE"])
def test_a_type_is_written_in_capitals(api: httpx.Client, type: str) -> None:
    refused(post(api, "s", '"string"', schemaType=type), 42201)
    refused(api.post("/compatibility/subjects/s/versions", json={"schema": "{}", "schemaType": type}), 42201)


def test_reserved_fields_are_refused_in_the_usual_words(api: httpx.Client) -> None:
    api.put("/config/s", json={"validateFields": True})
    reserved = {"properties": {"confluent:reserved": "note"}}
    post(api, "s", ORDER.text, metadata=reserved)
    taken = post(api, "s", ORDER_WITH_NOTE.text, metadata=reserved)
    refused(taken, 40901, "The new schema has field that conflicts with the reserved field note.")
    gone = post(api, "s", ORDER_WITH_NOTE.text, metadata={"properties": {"a": "1"}})
    refused(gone, 40901, "The new schema has reserved field note removed from its metadata")
