"""Deleting single versions in two steps, also when the whole contract is hidden."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE

from dragoman.registry.http.server import Server

VERSIONS = "/subjects/orders-value/versions"


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60.0) as client:
        for schema in (ORDER, ORDER_WITH_NOTE):
            client.post(VERSIONS, json={"schema": schema.text}).raise_for_status()
        yield client


def all_versions(api: httpx.Client) -> list[int]:
    answer = api.get(f"{VERSIONS}?deletedAsNegative=true")
    return list(answer.json()) if answer.status_code == 200 else []


def code(answer: httpx.Response) -> int:
    return int(answer.json()["error_code"])


def test_versions_of_a_hidden_contract_are_removed_one_by_one(api: httpx.Client) -> None:
    assert api.delete("/subjects/orders-value").json() == [1, 2]
    assert api.delete(f"{VERSIONS}/1?permanent=true").json() == 1
    assert all_versions(api) == [-2]
    assert code(api.get("/schemas/ids/1")) == 40403
    assert api.delete(f"{VERSIONS}/2?permanent=true").json() == 2
    assert all_versions(api) == []
    assert code(api.delete(f"{VERSIONS}/2?permanent=true")) == 40401


def test_the_latest_version_of_a_hidden_contract_is_removed(api: httpx.Client) -> None:
    assert api.delete("/subjects/orders-value").json() == [1, 2]
    assert api.delete(f"{VERSIONS}/latest?permanent=true").json() == 2
    assert all_versions(api) == [-1]


@pytest.mark.parametrize("version", ["1", "2", "3", "latest"])
def test_a_hidden_contract_has_no_version_to_hide(api: httpx.Client, version: str) -> None:
    assert api.delete("/subjects/orders-value").json() == [1, 2]
    assert code(api.delete(f"{VERSIONS}/{version}")) == 40401
    assert all_versions(api) == [-1, -2]


def test_hiding_the_latest_version_hides_the_latest_that_is_seen(api: httpx.Client) -> None:
    assert api.delete(f"{VERSIONS}/latest").json() == 2
    assert api.delete(f"{VERSIONS}/latest").json() == 1
    assert all_versions(api) == [-1, -2]


def test_a_version_that_is_seen_is_not_removed(api: httpx.Client) -> None:
    assert api.delete(f"{VERSIONS}/1").json() == 1
    for version in ("2", "latest"):
        assert code(api.delete(f"{VERSIONS}/{version}?permanent=true")) == 40407
    assert code(api.delete("/subjects/orders-value?permanent=true")) == 40405
    assert all_versions(api) == [-1, 2]
