"""Revoked keys and passwords, on the node that revoked them and on the others."""

from __future__ import annotations

import base64
import inspect
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.registry.guarding import bearer, new_key, new_user

from dragoman.core.errors import Forbidden
from dragoman.registry import RegistryService
from dragoman.registry import keys as secrets
from dragoman.registry.access import Principal
from dragoman.registry.administration import Local
from dragoman.registry.http import authenticate
from dragoman.registry.http.authenticate import Authenticator
from dragoman.registry.http.follow import Follower
from dragoman.registry.http.server import Server, ServerOptions

PASSWORD = "correct horse"
HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def remembered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential is forgotten because it was revoked, not because time has passed."""
    monkeypatch.setattr(authenticate, "REMEMBERED", HOUR_S)


@pytest.fixture
def nodes(store: str) -> Iterator[tuple[RegistryService, RegistryService]]:
    one, two = RegistryService.open(store), RegistryService.open(store)
    yield one, two
    one.engine.close()
    two.engine.close()


def credential(service: RegistryService, kind: str) -> tuple[str, str]:
    """A new one: its id, and the header with it."""
    if kind == "password":
        new_user(service, "bob", PASSWORD, "read")
        return "bob", basic("bob", PASSWORD)
    made = new_key(service, "read")
    return made.id, bearer(made.token)["Authorization"] if kind == "bearer" else basic(made.id, made.secret)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def identified(authenticator: Authenticator, header: str) -> Principal | None:
    """Who sends this header; nobody if it is refused."""
    scope = {"headers": [(b"authorization", header.encode())], "client": ("192.0.2.1", 1)}
    try:
        found = authenticator(scope)
        return await found if inspect.isawaitable(found) else found
    except Forbidden:
        return None


@pytest.mark.parametrize("kind", ["bearer", "basic", "password"])
async def test_a_node_forgets_a_credential_when_it_follows_the_revocation(
    nodes: tuple[RegistryService, RegistryService], kind: str
) -> None:
    here, there = nodes
    id, header = credential(here, kind)
    other = basic("carol", PASSWORD)
    new_user(here, "carol", PASSWORD, "read")
    authenticators = [Authenticator(node.engine) for node in nodes]
    follower = Follower(there.engine)
    await follower.look()
    for each in authenticators:
        assert await identified(each, header) is not None
        assert await identified(each, other) is not None
    await Local(here).revoke_key(id)
    assert await identified(authenticators[0], header) is None
    await follower.look()
    for each in authenticators:
        assert await identified(each, header) is None
        assert await identified(each, other) is not None


async def test_a_password_that_is_given_again_has_only_its_new_rights(
    nodes: tuple[RegistryService, RegistryService],
) -> None:
    here, there = nodes
    _, header = credential(here, "password")
    authenticator, follower = Authenticator(there.engine), Follower(there.engine)
    await follower.look()
    assert await identified(authenticator, header) is not None
    await Local(here).revoke_key("bob")
    new_user(here, "bob", PASSWORD, "write:orders-")
    await follower.look()
    found = await identified(authenticator, header)
    assert found is not None and [str(each) for each in found.grants] == ["write:orders-"]


async def test_other_changes_cost_no_check_of_a_password(
    nodes: tuple[RegistryService, RegistryService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would take a turn in the queue of logins."""
    service = nodes[0]
    _, header = credential(service, "password")
    authenticator = Authenticator(service.engine)
    assert await identified(authenticator, header) is not None
    monkeypatch.delattr(secrets, "_scrypt")
    for _ in range(3):
        new_key(service, "read")
        assert await identified(authenticator, header) is not None


async def test_a_key_works_no_longer_than_it_is_valid(
    nodes: tuple[RegistryService, RegistryService], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = nodes[0]
    now = time.monotonic()
    made = new_key(service, "read", expires=time.time() + HOUR_S / 2)
    authenticator = Authenticator(service.engine)
    header = bearer(made.token)["Authorization"]
    assert await identified(authenticator, header) is not None
    wall = time.time()
    for clock, base in (("monotonic", now), ("time", wall)):
        monkeypatch.setattr(authenticate.time, clock, lambda base=base: base + HOUR_S * 3 / 4)
    assert await identified(authenticator, header) is None


def test_a_key_that_one_server_revokes_is_refused_by_the_other(store: str) -> None:
    options = ServerOptions(store=store, port=0, credentials=True)
    with Server(options) as one, Server(options) as two, httpx.Client() as client:
        admin = bearer(new_key(one.service, "admin").token)
        made = new_key(one.service, "read")
        for server in (one, two):
            assert client.get(f"{server.url}/subjects", headers=bearer(made.token)).status_code == 200
        assert client.delete(f"{one.url}/keys/{made.id}", headers=admin).status_code == 200
        assert client.get(f"{one.url}/subjects", headers=bearer(made.token)).status_code == 401
        deadline = time.monotonic() + 60
        while client.get(f"{two.url}/subjects", headers=bearer(made.token)).status_code != 401:
            assert time.monotonic() < deadline
