"""The store on each of its databases."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.gateway.store.opening import open_store
from dragoman.gateway.store.port import Store

KINDS = ("memory", "sqlite", "postgres", "redis")


def store_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """A store of its own for each test, where that is cheap; the servers are shared."""
    if kind == "memory":
        return "sqlite://:memory:"
    if kind == "sqlite":
        return f"sqlite://{folder}/gateway.db"
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_server").url
        return url
    return f"{request.getfixturevalue('redis_server').url}/0?prefix={secrets.token_hex(4)}"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
