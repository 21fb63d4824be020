"""What the commands of the registry have in common: where it is, and how contracts are written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.core.defaults import default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.registry import Registry, VersionNumber
from dragoman.core.settings import read_section

if TYPE_CHECKING:
    from dragoman.registry.http.connections import ConnectionLimits
    from dragoman.registry.limits import Limits

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="http(s)://host:8081, or a database: sqlite://path, postgresql://..., mysql://...",
    ),
]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="DRAGOMAN_REGISTRY_TOKEN", help="A key or JWT for a server that asks."),
]
Name = Annotated[str, typer.Argument(metavar="CONTRACT", help="The contract's name.")]
NameAndVersion = Annotated[
    str,
    typer.Argument(
        metavar="CONTRACT[@VERSION]", help="A contract, and which version; the latest if not said."
    ),
]
LIMITS = "registry_limits"
CONNECTIONS = "registry_connections"


def limits() -> Limits:
    """Of the registry, as they are set."""
    from dragoman.registry.limits import Limits

    return read_section(Limits, LIMITS).values


def connection_limits() -> ConnectionLimits:
    """Of the registry's server, as they are set."""
    from dragoman.registry.http.connections import ConnectionLimits

    return read_section(ConnectionLimits, CONNECTIONS).values


@asynccontextmanager
async def opened(url: str | None, token: str | None = None) -> AsyncIterator[Registry]:
    from dragoman.registry import connect

    registry = connect(url or default_registry(), token=token or "")
    try:
        yield registry
    finally:
        await registry.close()


def split_version(text: str) -> tuple[str, VersionNumber]:
    """``orders-value@3`` in its parts."""
    name, at, version = text.rpartition("@")
    if not at:
        return text, "latest"
    if version == "latest":
        return name, "latest"
    if not version.isdigit() or not name:
        raise ConfigurationError(
            f"{text!r} names no version.", next="Write CONTRACT@NUMBER or CONTRACT@latest."
        )
    return name, int(version)
