"""Registries for tests: in process, and behind a live server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman.core.loading import DATABASES, load, scheme_of
from dragoman.core.registry import Registry
from dragoman.registry import connect
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.store.tables import migrate


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    options = ServerOptions(store=f"sqlite://{tmp_path}/registry.db", port=0)
    with Server(options) as running:
        yield running


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server that asks for credentials."""
    options = ServerOptions(store=f"sqlite://{tmp_path}/registry.db", port=0, credentials=True)
    with Server(options) as running:
        yield running


TABLES = (
    "contexts",
    "schemas",
    "high_ids",
    "references",
    "contracts",
    "versions",
    "settings",
    "bindings",
    "history",
    "keys",
)


def database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of this kind."""
    if kind == "sqlite":
        return f"sqlite://{tmp_path}/registry.db"
    url: str = request.getfixturevalue(f"{kind}_server").url
    database = load(DATABASES, scheme_of(url))(url)
    migrate(database)
    with database.transaction() as tx:
        for table in TABLES:
            tx.execute(f"DELETE FROM registry_{table}")
    database.close()
    return url


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    return database_url(request.param, request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres", "mariadb", "http"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    """The same port over every store, and over HTTP."""
    if request.param == "http":
        url = request.getfixturevalue("server").url
    elif request.param == "memory":
        url = "memory://"
    else:
        url = database_url(request.param, request, tmp_path)
    connected = connect(url)
    yield connected
    await connected.close()
