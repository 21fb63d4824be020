"""Every route with every role, for an own and a foreign name.

The routes come from the OpenAPI description and from the application. Each needs an entry in ``EXPECTED``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import httpx
import pytest
from tests.registry.guarding import bearer, new_key

from dragoman.registry.http.app import ROUTES
from dragoman.registry.http.openapi import document
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.keys import NewKey


class Needs(Enum):
    """What a route asks of whoever calls it."""

    NOTHING = "no credentials"
    CREDENTIALS = "a principal, whatever it may"
    READ = "read, for the name in the path"
    WRITE = "write, for the name in the path"
    ADMIN = "admin, for the name in the path"
    READ_ALL = "read, for all names"
    ADMIN_ALL = "admin, for all names"
    SHOWN = "a principal; shows what may be read"
    SEEN = "a principal; what may not be read is not found"


@dataclass(frozen=True)
class Case:
    """One way to call a route."""

    needs: Needs
    query: str = ""
    body: str = ""


SCHEMA = '{"schema": "\\"string\\""}'
OTHER_SCHEMA = '{"schema": "\\"bytes\\""}'
OPENSCHEMA = '{"schema_definition": "\\"string\\"", "schemaDefinition": "\\"string\\""}'
COMPATIBILITY = '{"compatibility": "NONE"}'
N, A, R, W, ALL = Needs.NOTHING, Needs.ADMIN, Needs.READ, Needs.WRITE, Needs.ADMIN_ALL
PERMANENT = Case(A, "?permanent=true")
DELETE = (Case(W), PERMANENT, Case(A, "?permanent=1"), Case(A, "?permanent"))
OPEN = (Case(Needs.CREDENTIALS),)
SHOWN, SEEN = (Case(Needs.SHOWN),), (Case(Needs.SEEN),)
ALL_CONTEXTS = Case(Needs.SHOWN, "?subjectPrefix=:*:")
SETTINGS = {
    ("GET", "/config"): (Case(Needs.READ_ALL),),
    ("PUT", "/config"): (Case(ALL, body=COMPATIBILITY),),
    ("DELETE", "/config"): (Case(ALL),),
    ("GET", "/config/{subject}"): (Case(R, "?defaultToGlobal=true"), Case(R)),
    ("PUT", "/config/{subject}"): (Case(A, body=COMPATIBILITY),),
    ("DELETE", "/config/{subject}"): (Case(A),),
    ("GET", "/mode"): (Case(Needs.READ_ALL),),
    ("PUT", "/mode"): (Case(ALL, body='{"mode": "READWRITE"}'),),
    ("DELETE", "/mode"): (Case(ALL), Case(ALL, "?recursive=true")),
    ("GET", "/mode/{subject}"): (Case(R, "?defaultToGlobal=true"), Case(R)),
    ("PUT", "/mode/{subject}"): (
        Case(A, body='{"mode": "READWRITE"}'),
        Case(A, "?force=true", '{"mode": "IMPORT"}'),
    ),
    ("DELETE", "/mode/{subject}"): (Case(A),),
    ("GET", "/contexts"): SHOWN,
    ("DELETE", "/contexts/{context}"): (Case(ALL),),
}
CONTRACTS = {
    ("GET", "/schemas/{id}"): SEEN,
    ("GET", "/contracts"): SHOWN,
    ("GET", "/contracts/{name}"): (Case(R),),
    ("POST", "/contracts/{name}"): (Case(W, body=SCHEMA),),
    ("DELETE", "/contracts/{name}"): DELETE,
    ("GET", "/contracts/{name}/versions"): (Case(R),),
    ("POST", "/contracts/{name}/versions"): (Case(R, body=SCHEMA),),
    ("GET", "/contracts/{name}/versions/{version}"): (Case(R),),
    ("DELETE", "/contracts/{name}/versions/{version}"): DELETE,
    ("POST", "/contracts/{name}/compatibility"): (Case(A, body=COMPATIBILITY),),
    ("POST", "/contracts/{name}/check"): (Case(R, body=SCHEMA),),
    ("GET", "/contracts/{name}/channels"): (Case(R),),
    ("PUT", "/contracts/{name}/channels/{channel}"): (Case(W),),
    ("DELETE", "/contracts/{name}/channels/{channel}"): (Case(W),),
    ("GET", "/contracts/{name}/history"): (Case(R),),
    ("GET", "/contracts/{name}/compare"): (Case(R),),
    ("GET", "/channels/{channel}/contracts"): SHOWN,
}
ADMINISTRATION = {
    ("GET", "/keys"): (Case(ALL),),
    ("POST", "/keys"): (Case(ALL, body='{"owner": "bob", "grants": ["read"]}'),),
    ("DELETE", "/keys/{id}"): (Case(ALL),),
    ("GET", "/history"): (Case(ALL),),
    ("GET", "/export"): (Case(ALL),),
    ("POST", "/import"): (Case(ALL, body='{"format": 1}'),),
    ("GET", "/health"): (Case(N),),
    ("GET", "/ready"): (Case(N),),
    ("GET", "/metrics"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/docs"): OPEN,
}
SUBJECTS = {
    ("GET", "/"): OPEN,
    ("POST", "/"): OPEN,
    ("GET", "/subjects"): (
        *SHOWN,
        Case(Needs.SHOWN, "?deleted=true"),
        Case(Needs.SHOWN, "?subjectPrefix=:*:"),
    ),
    ("POST", "/subjects/{subject}"): (Case(R, body=SCHEMA),),
    ("DELETE", "/subjects/{subject}"): DELETE,
    ("GET", "/subjects/{subject}/metadata"): (Case(R),),
    ("GET", "/subjects/{subject}/versions"): (Case(R), Case(R, "?deleted=true")),
    ("POST", "/subjects/{subject}/versions"): (
        Case(W, body=SCHEMA),
        Case(A, "?force=true", OTHER_SCHEMA),
        Case(ALL, body='{"schema": "\\"int\\"", "id": 4711}'),
    ),
    ("GET", "/subjects/{subject}/versions/{version}"): (Case(R), Case(R, "?format=resolved")),
    ("DELETE", "/subjects/{subject}/versions/{version}"): DELETE,
    ("GET", "/subjects/{subject}/versions/{version}/schema"): (Case(R),),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): (Case(R),),
    ("POST", "/compatibility/subjects/{subject}/versions"): (Case(R, body=SCHEMA),),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): (Case(R, body=SCHEMA),),
    ("GET", "/schemas"): (
        *SHOWN,
        Case(Needs.SHOWN, "?latestOnly=true"),
        Case(Needs.SHOWN, "?subjectPrefix=:*:"),
    ),
    ("GET", "/schemas/types"): OPEN,
    ("GET", "/schemas/ids/{id}"): SEEN,
    ("GET", "/schemas/ids/{id}/schema"): SEEN,
    ("GET", "/schemas/ids/{id}/subjects"): SEEN,
    ("GET", "/schemas/ids/{id}/versions"): SEEN,
    ("GET", "/schemas/guids/{guid}"): SEEN,
    ("GET", "/schemas/guids/{guid}/ids"): SEEN,
    ("GET", "/v1/metadata/id"): OPEN,
    ("GET", "/v1/metadata/version"): OPEN,
    ("GET", "/v1/metadata/deployment"): OPEN,
    ("GET", "/associations/resources/{namespace}/{name}"): SHOWN,
}
OPENSCHEMA_ROUTES = {
    ("GET", "/schemas/{id}"): SEEN,
    ("GET", "/schemas/{id}/subject"): SEEN,
    ("GET", "/subjects"): SHOWN,
    ("GET", "/subjects/{subject}"): (Case(R),),
    ("POST", "/subjects/{subject}"): (
        Case(W, body='{"schema": "\\"string\\""}'),
        Case(A, body='{"description": "x"}'),
        Case(A, body=COMPATIBILITY),
    ),
    ("DELETE", "/subjects/{subject}"): DELETE,
    ("GET", "/subjects/{subject}/versions"): (Case(R),),
    ("POST", "/subjects/{subject}/versions"): (Case(W, body=OPENSCHEMA),),
    ("GET", "/subjects/{subject}/versions/{version}/schema"): (Case(R),),
    ("DELETE", "/subjects/{subject}/versions/{version}"): DELETE,
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): (Case(R, body=OPENSCHEMA),),
    ("GET", "/config/{subject}"): (Case(R),),
    ("PUT", "/config/{subject}"): (Case(A, body=COMPATIBILITY),),
}
EXPECTED: dict[tuple[str, str], tuple[Case, ...]] = {
    **SETTINGS,
    **CONTRACTS,
    **ADMINISTRATION,
    **SUBJECTS,
    **{(method, f"/openschema/v1{path}"): case for (method, path), case in OPENSCHEMA_ROUTES.items()},
}

DESCRIBED = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
SERVED = {(method, route.path) for route in ROUTES for method in (route.methods or ()) if method != "HEAD"}

GRANTS: dict[str, tuple[str, ...]] = {
    "read:own-": ("read:own-",),
    "write:own-": ("write:own-",),
    "admin:own-": ("admin:own-",),
    "read": ("read",),
    "write": ("write",),
    "admin": ("admin",),
}
"""The weaker of each kind come first, so that refusals are seen before anything changes."""
ROLES = ("nobody", "nothing", *GRANTS)
RANK = {"read": 1, "write": 2, "admin": 3}
OWN, OTHER = "own-value", "other-value"


def test_every_route_has_an_expectation() -> None:
    assert set(EXPECTED) == SERVED
    assert set(EXPECTED) >= DESCRIBED


def verdict(needs: Needs, role: str, name: str) -> int:
    """The status of a refusal, or 200 for whatever an answer to one who is let in is."""
    if needs is Needs.NOTHING:
        return 200
    if role == "nobody":
        return 401
    if needs in (Needs.CREDENTIALS, Needs.SHOWN):
        return 200
    kind, _, prefix = role.partition(":")
    rank = RANK.get(kind, 0)
    if needs is Needs.SEEN:
        return 200 if rank and name.startswith(prefix) else 404
    if needs in (Needs.READ_ALL, Needs.ADMIN_ALL):
        wanted = 1 if needs is Needs.READ_ALL else 3
        return 200 if not prefix and rank >= wanted else 403
    return 200 if name.startswith(prefix) and rank >= RANK[needs.name.lower()] else 403


class Registry:
    """A server with a schema under an own and a foreign name, and a key for each role."""

    def __init__(self, server: Server) -> None:
        self.http = httpx.Client(base_url=server.url, timeout=60.0, follow_redirects=False)
        self.service = server.service
        self.keys: dict[str, NewKey] = {
            role: new_key(server.service, *grants) for role, grants in GRANTS.items()
        }
        self.keys["nothing"] = new_key(server.service, "read:nothing-like-this")
        self.ids: dict[str, int] = {}
        self.guids: dict[str, str] = {}
        for name, schema in ((OWN, "string"), (OTHER, "long")):
            self.seed(name, schema)

    def seed(self, name: str, schema: str) -> None:
        body = {"schema": json.dumps(schema)}
        headers = self.headers("admin")
        self.http.post(f"/subjects/{name}/versions", json=body, headers=headers).raise_for_status()
        found = self.http.get(f"/subjects/{name}/versions/1", headers=headers).json()
        self.ids[name], self.guids[name] = found["id"], found["guid"]
        channel = name.removesuffix("-value")
        self.http.put(f"/contracts/{name}/channels/{channel}", headers=headers).raise_for_status()

    def headers(self, role: str) -> dict[str, str]:
        return {} if role == "nobody" else bearer(self.keys[role].token)

    def path(self, route: str, name: str) -> str:
        parts = {
            "name": name.removesuffix("-value") if route.startswith("/associations") else name,
            "subject": name,
            "channel": name.removesuffix("-value"),
            "version": "1",
            "id": "dk_none" if route.startswith("/keys") else str(self.ids[name]),
            "guid": self.guids[name],
            "context": ".empty",
            "namespace": "-",
        }
        return route.format(**parts)

    def call(self, method: str, route: str, case: Case, role: str, name: str) -> httpx.Response:
        content = case.body.encode() or None
        headers = {**self.headers(role), "Content-Type": "application/json"}
        return self.http.request(
            method, self.path(route, name) + case.query, content=content, headers=headers
        )


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    options = ServerOptions(store="sqlite://:memory:", port=0, credentials=True)
    with Server(options) as server:
        made = Registry(server)
        yield made
        made.http.close()


@pytest.mark.parametrize(("method", "route"), sorted(EXPECTED), ids=lambda part: str(part))
def test_a_route_lets_in_those_who_have_the_right(registry: Registry, method: str, route: str) -> None:
    wrong = []
    for case in EXPECTED[method, route]:
        for role in ROLES:
            for name in (OTHER, OWN):
                methods = ("HEAD", method) if method == "GET" else (method,)
                for each in methods:
                    answer = registry.call(each, route, case, role, name)
                    expected = verdict(case.needs, role, name)
                    found = answer.status_code
                    if not _fits(found, expected, case.needs):
                        wrong.append(
                            f"{each} {answer.url.path}{case.query} as {role}: {found}, not {expected}"
                        )
                    if case.needs is Needs.SHOWN and each == "GET" and found == 200:
                        wrong += _leaks(route, case, role, answer)
    assert wrong == []


def _fits(found: int, expected: int, needs: Needs) -> bool:
    if expected != 200:
        return found == expected
    # Whoever is let in may still be told that a thing is not there, or not now.
    return found == 200 if needs in (Needs.SEEN, Needs.SHOWN, Needs.NOTHING) else found not in (401, 403)


def _leaks(route: str, case: Case, role: str, answer: httpx.Response) -> list[str]:
    """Names in a listing that this role may not read; none is missing that it may."""
    rank, prefix = RANK.get(role.partition(":")[0], 0), role.partition(":")[2]
    found = []
    for name in (OWN, OTHER):
        may = bool(rank) and name.startswith(prefix)
        if name in answer.text and not may:
            found.append(f"GET {route}{case.query} shows {name} to {role}")
        named = "{" not in route and route != "/contexts"
        if name not in answer.text and may and named:
            found.append(f"GET {route}{case.query} hides {name} from {role}")
    return found


@pytest.mark.parametrize(("method", "route"), sorted(EXPECTED), ids=lambda part: str(part))
def test_a_route_works_for_an_administrator(registry: Registry, method: str, route: str) -> None:
    """So that the refusals above are those of a request that is otherwise right."""
    not_there = {
        ("DELETE", "/keys/{id}"): 404,
        ("GET", "/config/{subject}"): 404,
        ("GET", "/mode/{subject}"): 404,
        ("DELETE", "/config/{subject}"): 404,
        ("DELETE", "/mode/{subject}"): 404,
    }
    for case in EXPECTED[method, route][:1]:
        found = registry.call(method, route, case, "admin", OWN).status_code
        allowed = {200, 204, not_there.get((method, route), 200)}
        assert found in allowed, f"{method} {route}{case.query}"


@pytest.mark.parametrize("part", ["", "/versions/{version}"])
@pytest.mark.parametrize(
    "route", ["/subjects/{subject}", "/contracts/{name}", "/openschema/v1/subjects/{subject}"]
)
def test_only_administrators_remove_for_good(registry: Registry, route: str, part: str) -> None:
    def versions() -> list[int]:
        path = f"/subjects/{OWN}/versions?deleted=true"
        answer = registry.http.get(path, headers=registry.headers("read"))
        return list(answer.json()) if answer.status_code == 200 else []

    assert registry.call("DELETE", route + part, Case(W), "write:own-", OWN).status_code == 200
    for role in ("write", "write:own-", "read", "nothing"):
        assert registry.call("DELETE", route + part, PERMANENT, role, OWN).status_code == 403
        assert versions() == [1]
    assert registry.call("DELETE", route + part, PERMANENT, "admin:own-", OWN).status_code == 200
    assert versions() == []
