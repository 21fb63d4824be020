"""Registries for tests: in process, and behind a live server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman.core.registry import Registry
from dragoman.registry import connect
from dragoman.registry.http.server import Server, ServerOptions


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    options = ServerOptions(store=f"sqlite://{tmp_path}/registry.db", port=0)
    with Server(options) as running:
        yield running


@pytest.fixture(params=["memory", "sqlite", "http"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    """The same port three times: in memory, on a file, and over HTTP."""
    if request.param == "http":
        url = request.getfixturevalue("server").url
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/registry.db"}[request.param]
    connected = connect(url)
    yield connected
    await connected.close()
