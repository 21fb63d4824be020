"""Input that a database or a number cannot hold is refused, on every store, and never breaks a server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.registry.schemas import ORDER

from dragoman.core.errors import InvalidSchema
from dragoman.core.schema import Schema
from dragoman.registry import connect
from dragoman.registry.http.server import Server, ServerOptions


@pytest.fixture
def api(store: str) -> Iterator[httpx.Client]:
    with Server(ServerOptions(store=store, port=0)) as server, httpx.Client(base_url=server.url) as client:
        yield client


def test_what_no_store_can_hold_is_refused(api: httpx.Client) -> None:
    api.put("/mode/i", json={"mode": "IMPORT"})
    schema = ORDER.text
    reference = {"name": "x", "subject": "a\0b", "version": 1}
    huge = 10**30
    for method, path, body in (
        ("POST", "/subjects/a/versions", {"schema": schema + "\0"}),
        ("POST", "/subjects/i/versions", {"schema": schema + "\0", "id": 1, "version": 1}),
        ("POST", "/subjects/i/versions", {"schema": schema, "id": huge, "version": 1}),
        ("POST", "/subjects/i/versions", {"schema": schema, "id": 1, "version": huge}),
        ("POST", "/subjects/i/versions", {"schema": schema, "schemaType": "X" * 1000}),
        ("POST", "/subjects/a/versions", {"schema": schema, "references": [reference]}),
        ("POST", "/subjects/a%00b/versions", {"schema": schema}),
        ("POST", "/contracts/a%00b", {"schema": schema}),
        ("GET", "/subjects/a%00b/versions/1", None),
        ("GET", "/schemas/ids/1?subject=a%00b", None),
        ("GET", "/channels/a%00b/contracts", None),
        ("PUT", "/config/a%00b", {"compatibility": "FULL"}),
        ("POST", "/keys", {"owner": "a\0b", "grants": ["read"]}),
        ("POST", "/import", {"format": 1, "contracts": [{"name": "a", "next": huge}]}),
        ("POST", "/import", {"format": 1, "scopes": [{"name": "a", "mode": "SOMETIMES"}]}),
        ("POST", "/import", {"format": 1, "scopes": [{"name": "a", "settings": {"policy": "X"}}]}),
        ("POST", "/import", {"format": 1, "contracts": [{"name": "a", "channels": ["a b"]}]}),
    ):
        answer = api.request(method, path, json=body)
        assert 400 <= answer.status_code < 500, (path, body, answer.status_code, answer.text)
    assert api.get(f"/schemas/ids/{huge}").status_code == 404
    assert api.get(f"/subjects/a/versions/{huge}").status_code == 422
    assert api.get("/ready").status_code == 200
    assert api.get("/subjects?deleted=true").json() == []


def test_metadata_may_hold_any_text(api: httpx.Client) -> None:
    metadata = {"properties": {"strange": "a\0b \u2028 \U0001f40c"}}
    answer = api.post("/subjects/a/versions", json={"schema": ORDER.text, "metadata": metadata})
    assert answer.status_code == 200
    assert api.get("/subjects/a/versions/1").json()["metadata"] == metadata


async def test_half_a_character_is_no_schema() -> None:
    registry = connect("memory://")
    with pytest.raises(InvalidSchema):
        await registry.register("a", Schema("AVRO", '"\ud800"'))
    await registry.close()
