"""A grant for one prefix reaches nothing outside of it, by whatever route or spelling."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import pytest
from tests.registry.guarding import client

from dragoman.core.errors import ConfigurationError
from dragoman.registry.access import Grant
from dragoman.registry.http.server import Server

SECRET = {
    "schema": json.dumps(
        {"type": "record", "name": "Pay", "fields": [{"name": "secret_salary", "type": "long"}]}
    )
}
WRAPPER = json.dumps({"type": "record", "name": "Wrapper", "fields": [{"name": "pay", "type": "Pay"}]})
REFERENCE = [{"name": "Pay", "subject": "payments-value", "version": 1}]
GREATEST = 2**31 - 1


@dataclass
class Roles:
    """``payments-value`` belongs to the root; the others have rights to ``orders-`` only."""

    root: httpx.Client
    admin: httpx.Client
    writer: httpx.Client
    reader: httpx.Client


@pytest.fixture
def roles(guarded: Server) -> Iterator[Roles]:
    made = Roles(
        client(guarded, "admin"),
        client(guarded, "admin:orders-"),
        client(guarded, "write:orders-"),
        client(guarded, "read:orders-"),
    )
    assert made.root.post("/subjects/payments-value/versions", json=SECRET).json() == {"id": 1}
    made.writer.post("/subjects/orders-value/versions", json={"schema": '"string"'})
    yield made
    for each in (made.root, made.admin, made.writer, made.reader):
        each.close()


def subjects_of(roles: Roles, topic: str) -> list[str]:
    found = roles.root.get(f"/associations/resources/-/{topic}").json()
    return [each["subject"] for each in found]


def test_a_writer_of_one_prefix_does_not_take_over_a_foreign_channel(roles: Roles) -> None:
    for mine in (roles.writer, roles.admin):
        refused = mine.put("/contracts/orders-value/channels/payments")
        assert (refused.status_code, refused.json()["code"]) == (403, "registry.forbidden")
        assert "payments-value" in refused.json()["message"]
    assert subjects_of(roles, "payments") == []


def test_a_writer_binds_channels_of_the_own_prefix(roles: Roles) -> None:
    for channel in ("orders", "orders-returns"):
        assert roles.writer.put(f"/contracts/orders-value/channels/{channel}").status_code == 200
        assert subjects_of(roles, channel) == ["orders-value"]
        assert roles.writer.delete(f"/contracts/orders-value/channels/{channel}").status_code == 200
        assert subjects_of(roles, channel) == []


def test_the_right_to_one_part_of_a_channel_is_not_the_right_to_the_other(
    guarded: Server, roles: Roles
) -> None:
    roles.writer.post("/subjects/orders-key/versions", json={"schema": '"string"'})
    with client(guarded, "write:orders-", "write:payments-key") as mine:
        assert mine.put("/contracts/orders-value/channels/payments").status_code == 403
        assert mine.put("/contracts/orders-key/channels/payments").status_code == 200


def test_a_foreign_binding_is_not_released(roles: Roles) -> None:
    assert roles.root.put("/contracts/orders-value/channels/payments").status_code == 200
    assert roles.root.put("/contracts/payments-value/channels/orders").status_code == 200
    for path in ("/contracts/orders-value/channels/payments", "/contracts/payments-value/channels/orders"):
        assert roles.admin.delete(path).status_code == 403
    assert subjects_of(roles, "payments") == ["orders-value"]
    assert subjects_of(roles, "orders") == ["payments-value"]


def test_a_context_of_its_own_gives_no_right_to_a_channel(guarded: Server, roles: Roles) -> None:
    with client(guarded, "write::.mine:") as mine:
        mine.post("/subjects/:.mine:payments-value/versions", json={"schema": '"string"'})
        for path in ("/contracts/:.mine:payments-value", "/contexts/.mine/contracts/payments-value"):
            assert mine.get(path).status_code == 200
            assert mine.put(f"{path}/channels/payments").status_code == 403
    assert subjects_of(roles, "payments") == []


def test_a_reference_needs_the_right_to_read_what_it_refers_to(roles: Roles) -> None:
    body = {"schema": WRAPPER, "references": REFERENCE}
    contract = {
        "schema": WRAPPER,
        "references": [{"name": "Pay", "contract": "payments-value", "version": 1}],
    }
    for path, value in (
        ("/subjects/orders-ref/versions", body),
        ("/subjects/orders-value", body),
        ("/compatibility/subjects/orders-value/versions/latest", body),
        ("/compatibility/subjects/orders-value/versions?verbose=true", body),
        ("/contracts/orders-ref", contract),
        ("/contracts/orders-value/versions", contract),
        ("/contracts/orders-value/check", contract),
    ):
        for spelling in ("payments-value", ":.:payments-value", "::payments-value"):
            references = [
                {**each, next(key for key in ("subject", "contract") if key in each): spelling}
                for each in value["references"]
            ]
            refused = roles.writer.post(path, json={**value, "references": references})
            assert refused.status_code == 403, (path, spelling)
            assert "secret_salary" not in refused.text
    assert roles.root.get("/subjects/orders-ref/versions").status_code == 404


def test_a_reference_to_what_one_may_read_is_accepted(guarded: Server, roles: Roles) -> None:
    with client(guarded, "write:orders-", "read:payments-") as mine:
        made = mine.post("/subjects/orders-ref/versions", json={"schema": WRAPPER, "references": REFERENCE})
        assert made.status_code == 200
        shown = mine.get("/subjects/orders-ref/versions/1?format=resolved")
        assert "secret_salary" in shown.text


def test_the_resolved_form_needs_the_right_to_all_that_it_shows(roles: Roles) -> None:
    """Also when somebody else registered the references, through others, and had the answer before."""
    body = {"schema": WRAPPER, "references": REFERENCE}
    outer = json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "w", "type": "Wrapper"}]})
    through = [{"name": "Wrapper", "subject": "orders-ref", "version": 1}]
    roles.root.post("/subjects/orders-ref/versions", json=body)
    made = roles.root.post("/subjects/orders-outer/versions", json={"schema": outer, "references": through})
    assert made.status_code == 200
    found = roles.root.get("/subjects/orders-outer/versions/1").json()
    for path in (
        "/subjects/orders-outer/versions/1",
        "/subjects/orders-outer/versions/latest/schema",
        f"/schemas/ids/{found['id']}",
        f"/schemas/ids/{found['id']}/schema",
        f"/schemas/guids/{found['guid']}",
        "/contexts/%2E/subjects/orders-outer/versions/1",
        "/subjects/orders-outer/metadata",
    ):
        for _ in range(2):
            assert "secret_salary" in roles.root.get(f"{path}?format=resolved").text, path
            refused = roles.reader.get(f"{path}?format=resolved")
            assert refused.status_code == 403, path
            assert "secret_salary" not in refused.text
        assert roles.reader.get(path).status_code == 200, path
    lookup = {"schema": outer, "references": through}
    assert roles.reader.post("/subjects/orders-outer?format=resolved", json=lookup).status_code == 403
    assert roles.reader.post("/subjects/orders-outer", json=lookup).status_code == 200


def test_an_administrator_of_one_prefix_takes_no_ids(roles: Roles) -> None:
    assert roles.admin.put("/mode/orders-im", json={"mode": "IMPORT"}).status_code == 200
    for id in (GREATEST, 4711, 3, 1):
        body = {"schema": '"long"', "id": id, "version": 1}
        refused = roles.admin.post("/subjects/orders-im/versions", json=body)
        assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
        assert "all contracts of the context '.'" in refused.json()["message"]
    made = roles.root.post("/subjects/after-value/versions", json={"schema": '"bytes"'})
    assert made.json() == {"id": 3}


def test_an_id_that_is_gone_is_not_taken_by_an_administrator_of_one_prefix(roles: Roles) -> None:
    """Messages with this id may still be on the channel."""
    for query in ("", "?permanent=true"):
        assert roles.root.delete(f"/subjects/payments-value{query}").status_code == 200
    roles.admin.put("/mode/orders-im", json={"mode": "IMPORT"})
    body = {"schema": '"long"', "id": 1, "version": 1}
    assert roles.admin.post("/subjects/orders-im/versions", json=body).status_code == 403


def test_an_administrator_of_a_context_gives_the_ids_of_that_context(guarded: Server, roles: Roles) -> None:
    body = {"schema": '"long"', "id": 4711, "version": 1}
    with client(guarded, "admin::.mine:") as mine, client(guarded, "admin::.mine:orders-") as part:
        path = "/subjects/:.mine:orders-value/versions"
        assert part.put("/mode/:.mine:orders-value", json={"mode": "IMPORT"}).status_code == 200
        assert part.post(path, json=body).status_code == 403
        assert mine.post(path, json=body).json() == {"id": 4711}
    assert roles.root.put("/mode/other", json={"mode": "IMPORT"}).status_code == 200
    assert roles.root.post("/subjects/other/versions", json=body).json() == {"id": 4711}


def test_when_no_version_number_is_left_nothing_is_stored(roles: Roles) -> None:
    roles.root.put("/mode/last", json={"mode": "IMPORT"})
    body = {"schema": '"long"', "id": GREATEST, "version": GREATEST}
    assert roles.root.post("/subjects/last/versions", json=body).json() == {"id": GREATEST}
    roles.root.delete("/mode/last")
    stored = roles.root.post("/subjects/next/versions", json={"schema": '"bytes"'}).json()["id"]
    assert stored < GREATEST, "the greatest id was imported, and there are others"
    roles.root.put("/config/last", json={"compatibility": "NONE"})
    refused = roles.root.post("/subjects/last/versions", json={"schema": '"string"'})
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42205)
    assert roles.root.get("/subjects/last/versions").json() == [GREATEST]


SPELLINGS = [
    "payments-value",
    "%70ayments-value",
    "payments%2Dvalue",
    ":.:payments-value",
    "::payments-value",
    quote(":.:payments-value", safe=""),
    "orders-%2F..%2Fpayments-value",
    ":.orders-:payments-value",
    "Orders-value",
    "ORDERS-value",
]


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("root", ["", "/contexts/%2E", "/contexts/%2e"])
def test_no_spelling_of_a_foreign_name_is_let_in(roles: Roles, root: str, name: str) -> None:
    allowed = name.startswith("orders-")  # it is a name of its own, with slashes in it
    for method, path, body in (
        ("GET", f"/subjects/{name}/versions/1", None),
        ("HEAD", f"/subjects/{name}/versions/1", None),
        ("GET", f"/contracts/{name}", None),
        ("POST", f"/subjects/{name}/versions", {"schema": '"int"'}),
        ("POST", f"/contracts/{name}", {"schema": '"int"'}),
        ("DELETE", f"/subjects/{name}", None),
        ("PUT", f"/config/{name}", {"compatibility": "NONE"}),
    ):
        answer = roles.admin.request(method, root + path, json=body)
        if allowed:
            assert "secret_salary" not in answer.text
        else:
            assert answer.status_code in (403, 404, 422), (method, root + path)
    assert roles.root.get("/subjects/payments-value/versions").json() == [1]
    assert roles.root.get("/config/payments-value").status_code == 404


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
def test_a_header_does_not_change_the_method(roles: Roles, header: str) -> None:
    path = "/subjects/orders-value"
    for query in ("", "?_method=DELETE", "?method=DELETE"):
        roles.reader.request("POST", path + query, headers={header: "DELETE"}, json={"schema": '"string"'})
        roles.reader.request("GET", f"{path}/versions{query}", headers={header: "DELETE"})
    assert roles.root.get(f"{path}/versions").json() == [1]


@pytest.mark.parametrize("method", ["OPTIONS", "PATCH", "TRACE", "PROPFIND", "LOCK"])
def test_other_methods_are_not_served(roles: Roles, method: str) -> None:
    answer = roles.root.request(method, "/subjects/payments-value/versions/1")
    assert answer.status_code == 405
    assert "secret_salary" not in answer.text


def test_the_probes_are_open_in_one_spelling_only(guarded: Server) -> None:
    assert httpx.get(f"{guarded.url}/health").status_code == 200
    for path in ("/%68ealth", "/h%65alth", "/contexts/%2E/health", "/health/", "/%72eady", "/HEALTH"):
        assert httpx.get(f"{guarded.url}{path}").status_code == 401, path


def test_listings_show_no_foreign_names(roles: Roles) -> None:
    body = {"schema": '"bytes"'}
    assert roles.root.post("/subjects/:.secret-project:x/versions", json=body).status_code == 200
    for path in (
        "/subjects",
        "/subjects?subjectPrefix=:*:",
        "/subjects?subjectPrefix=:.secret-project:",
        "/subjects?deleted=true",
        "/subjects?deletedOnly=true",
        "/contracts",
        "/contracts?prefix=pay",
        "/schemas?subjectPrefix=:*:",
        "/contexts",
        "/contexts?contextPrefix=.secret",
        "/openschema/v1/subjects",
        "/contexts/.secret-project/subjects",
        "/channels/payments/contracts",
        "/associations/resources/-/payments",
    ):
        answer = roles.reader.get(path)
        assert answer.status_code == 200, path
        assert "secret" not in answer.text, path
        assert "payments-value" not in answer.text, path
    assert roles.root.get("/contexts").json() == [".", ".secret-project"]


def test_a_foreign_id_looks_like_none(roles: Roles) -> None:
    for part in ("", "/schema", "/subjects", "/versions"):
        foreign, none = (roles.reader.get(f"/schemas/ids/{id}{part}") for id in (1, 999))
        assert (foreign.status_code, none.status_code) == (404, 404)
        assert foreign.json()["error_code"] == none.json()["error_code"]


def test_a_name_is_written_in_one_way(roles: Roles) -> None:
    """``:.::.ctx:x`` would be ``:.ctx:x`` in the default context, whose ids it would take."""
    for name in (":.::.ctx:x", "::x", ":.ctx::x", ":.:::x"):
        answer = roles.root.post(f"/subjects/{name}/versions", json={"schema": '"bytes"'})
        if name == "::x":
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.json()["error_code"]) == (422, 42208)


@pytest.mark.parametrize("text", ["read:", "write:", "admin:"])
def test_a_grant_with_an_empty_prefix_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Grant.parse(text)
    assert refused.value.code == "registry.invalid.role"
