"""What the commands on topologies have in common."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from dragoman.core.errors import ConfigurationError, DiscoveryUnavailable
from dragoman.topology.allowlist import AllowList
from dragoman.topology.manager import Topology
from dragoman.topology.signing import Signer

TopicName = Annotated[str, typer.Argument(help="The topic's name.")]
Scope = Annotated[str | None, typer.Option(help="The topic's scope.")]
Discoveries = Annotated[
    list[str] | None,
    typer.Option(
        "--discovery",
        metavar="URL",
        help="etcd://host:2379 or file://path; may be repeated. Else DRAGOMAN_DISCOVERY, with blanks.",
    ),
]
Admins = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        metavar="URL",
        help="A broker's URL or multicast://; may be repeated. Else DRAGOMAN_ADMINS, separated by blanks.",
    ),
]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="May be repeated.")
]
Patience = Annotated[float, typer.Option("--timeout", help="Seconds to wait for a discovery to answer.")]
SignerName = Annotated[str | None, typer.Option("--signer", help="Sign as this name; needs --key.")]
KeyFile = Annotated[Path | None, typer.Option("--key", help="The file of the signing key.")]


def signer_of(name: str | None, key: Path | None) -> Signer | None:
    if name is None and key is None:
        return None
    if name is None or key is None:
        raise typer.BadParameter("--signer and --key go together.")
    if not key.is_file():
        raise typer.BadParameter(f"There is no file {key}.")
    return Signer.read(name, key)


def listed(given: list[str] | None, variable: str) -> list[str]:
    return given or os.environ.get(variable, "").split()


@asynccontextmanager
async def topology_of(
    discoveries: list[str] | None,
    timeout: float,
    *,
    admins: list[str] | None = None,
    folders: list[Path] | None = None,
    signer: Signer | None = None,
) -> AsyncIterator[Topology]:
    """A topology that knows what its discoveries know."""
    topology = Topology(
        admins or [],
        listed(discoveries, "DRAGOMAN_DISCOVERY"),
        AllowList(),
        configuration=folders or None,
        signer=signer,
    )
    async with topology:
        for discovery in topology.discoveries:
            try:
                async with asyncio.timeout(timeout):
                    await discovery.synced()
            except TimeoutError:
                why = discovery.trouble or ""
                raise DiscoveryUnavailable(
                    f"{discovery.url} has not answered in {timeout:g} seconds. {why}".rstrip(),
                    next="Check its address, user and password.",
                ) from None
        yield topology


def required(discoveries: list[str] | None) -> list[str]:
    found = listed(discoveries, "DRAGOMAN_DISCOVERY")
    if not found:
        raise ConfigurationError(
            "No discovery is named.", next="Use --discovery etcd://host:2379, or set DRAGOMAN_DISCOVERY."
        )
    return found
