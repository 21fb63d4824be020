"""What the commands on pipelines have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError, ExtraMissing, NotFound

BrokerUrl = Annotated[str, typer.Option("--broker", metavar="URL", help="The broker; embedded by default.")]
RegistryUrl = Annotated[
    str, typer.Option("--registry", metavar="URL", help="The registry; embedded by default.")
]
Master = Annotated[str, typer.Option(help="Spark's master, such as local[4] or spark://host:7077.")]
Target = Annotated[Path, typer.Option("--to", help="The folder of the tables.")]
TableFormat = Annotated[str, typer.Option(help="delta, iceberg or parquet.")]
TableName = Annotated[str, typer.Option("--table", help="One of the tables, if there are several.")]


def spark_session(master: str) -> Any:
    """Raises ``ExtraMissing`` with the command to run."""
    try:
        from dragoman.pipeline.starting import session
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"Pipelines need the package {error.name!r}.", next="Run: pip install 'dragoman[spark]'"
        ) from error
    return session(master or None)


def source_options(channel: str, broker: str, registry: str) -> Any:
    from dragoman.pipeline.options import parse_options

    return parse_options(
        {
            "channel": channel,
            "broker": broker or default_broker(),
            "registry": registry or default_registry(),
        }
    )


def one_flow(to: Path, table: str) -> tuple[Any, Any, str]:
    """State, flow and table format of the table that is meant."""
    from dragoman.pipeline.running import Pipeline

    found = Pipeline.flows_below(str(to))
    chosen = [each for each in found if table in ("", each[1].table_name)]
    names = ", ".join(each[1].table_name for each in found) or "none"
    if not chosen:
        raise NotFound("No pipeline has written such a table here.", folder=to, next=f"Tables: {names}.")
    if len(chosen) > 1:
        raise ConfigurationError("There are several tables.", next=f"Name one with --table: {names}.")
    return chosen[0]
