"""What the commands on pipelines have in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.extras import extra_missing

if TYPE_CHECKING:
    from dragoman.pipeline.kept import KeptTable

BrokerUrl = Annotated[str, typer.Option("--broker", metavar="URL", help="The broker; embedded by default.")]
RegistryUrl = Annotated[
    str, typer.Option("--registry", metavar="URL", help="The registry; embedded by default.")
]
Token = Annotated[
    str,
    typer.Option("--token", envvar="DRAGOMAN_REGISTRY_TOKEN", help="A key or JWT for a registry that asks."),
]
Master = Annotated[str, typer.Option(help="Spark's master, such as local[4] or spark://host:7077.")]
Target = Annotated[Path, typer.Option("--to", help="The folder of the tables.")]
TableFormat = Annotated[str, typer.Option(help="delta, iceberg or parquet.")]
TableName = Annotated[str, typer.Option("--table", help="One of the tables, if there are several.")]


def spark_session(master: str) -> Any:
    """Raises ``ExtraMissing`` with the command that installs Spark."""
    try:
        from dragoman.pipeline.starting import session
    except ModuleNotFoundError as error:
        raise extra_missing("A pipeline", error.name, "spark") from error
    return session(master or None)


def source_options(channel: str, broker: str, registry: str, more: Iterable[tuple[str, str]] = ()) -> Any:
    from dragoman.pipeline.options import parse_options

    return parse_options(
        {
            "channel": channel,
            "broker": broker or default_broker(),
            "registry": registry or default_registry(),
            **dict(more),
        }
    )


def kept(to: Path, table: str) -> KeptTable:
    """The table that is meant."""
    from dragoman.pipeline.kept import kept_table

    return kept_table(str(to), table)
