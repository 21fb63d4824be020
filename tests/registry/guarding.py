"""Keys for tests of servers that ask for credentials."""

from __future__ import annotations

import httpx

from dragoman.registry import RegistryService
from dragoman.registry.access import Grant
from dragoman.registry.http.server import Server
from dragoman.registry.keys import REGISTRY, NewKey, create_key, create_password


def new_key(service: RegistryService, *grants: str, expires: float | None = None) -> NewKey:
    given = tuple(Grant.parse(text) for text in grants)
    return service.engine.write_now(
        lambda tx: create_key(tx, "ada", given, expires=expires, author="test"), REGISTRY
    )


def new_user(service: RegistryService, user: str, password: str, *grants: str) -> None:
    given = tuple(Grant.parse(text) for text in grants)
    service.engine.write_now(lambda tx: create_password(tx, user, password, given, author="test"), REGISTRY)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def client(server: Server, *grants: str) -> httpx.Client:
    """A client with a key of its own."""
    token = new_key(server.service, *grants).token
    return httpx.Client(base_url=server.url, headers=bearer(token), timeout=60.0)
