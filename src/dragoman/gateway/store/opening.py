"""A store from its URL."""

from __future__ import annotations

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import DATABASES, load, scheme_of
from dragoman.gateway.store.port import Store
from dragoman.gateway.store.sql import SqlStore

DEFAULT = "sqlite://.dragoman/gateway.db"


def open_store(url: str) -> Store:
    """``sqlite://path``, ``sqlite://:memory:``, ``postgresql://...`` or ``redis://...``; not opened yet."""
    scheme = scheme_of(url)
    if scheme in ("redis", "rediss"):
        from dragoman.gateway.store.redis import RedisStore

        return RedisStore(url)
    if scheme not in ("sqlite", "postgresql"):
        raise ConfigurationError(
            f"A gateway cannot keep its store in {scheme}://.",
            next="Use sqlite://, postgresql:// or redis://.",
        )
    return SqlStore(load(DATABASES, scheme)(url))
