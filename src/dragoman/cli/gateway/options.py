"""What the commands of the gateway have in common."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from dragoman.gateway.configuration import GatewayFile, PublicTable, read_file
from dragoman.gateway.store.opening import DEFAULT

Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="TOML file with the public destinations.")
]
Public = Annotated[
    list[str] | None,
    typer.Option(help="A resource that can be reached from outside, on the usual terms."),
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="sqlite://path, postgresql://... or redis://...; it can be shared.",
    ),
]
DEFAULT_STORE = DEFAULT
KEY_FILE = ".dragoman/gateway.key"


def configured(config: str | None, public: list[str] | None) -> GatewayFile:
    """The file, or the resources named on the command line, or both."""
    named = [PublicTable(resource=each) for each in public or ()]
    if config is None:
        return GatewayFile(public=named)
    found = read_file(config)
    return msgspec.structs.replace(found, public=[*found.public, *named])
