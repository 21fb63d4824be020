"""``pipeline run`` and ``pipeline sql``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.output import Json, emit_json, emit_table, err, hint, say
from dragoman.cli.pipeline.options import BrokerUrl, Master, RegistryUrl, TableFormat, spark_session
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError

if TYPE_CHECKING:
    from dragoman.pipeline.configuration import Settings
    from dragoman.pipeline.events import Progress


_BESIDE_A_FILE = frozenset({"config", "once", "metrics_port", "metrics_host", "master", "as_json"})


def run(
    context: typer.Context,
    channel: Annotated[list[str] | None, typer.Option(help="A channel; may be given several times.")] = None,
    to: Annotated[Path | None, typer.Option(help="The folder of the tables.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file instead of the options.")] = None,
    table_format: TableFormat = "delta",
    name: Annotated[
        str, typer.Option(help="The pipeline's name: one driver at a time may have it.")
    ] = "pipeline",
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all that is there now is in the tables.")
    ] = False,
    checkpoint: Annotated[
        str, typer.Option(help="Where progress is kept; beside the tables if not given.")
    ] = "",
    version: Annotated[
        str, typer.Option(help="The contract's version to read as: latest or a number.")
    ] = "latest",
    merge_by: Annotated[
        list[str] | None,
        typer.Option(help="Keep the latest row of each: a column, or key for the message's."),
    ] = None,
    partition_by: Annotated[list[str] | None, typer.Option(help="Columns to split the files by.")] = None,
    starting_offsets: Annotated[
        str, typer.Option(help="earliest, latest, a time, or JSON; counts at the first start.")
    ] = "earliest",
    max_rows_per_trigger: Annotated[int | None, typer.Option(min=1, help="Messages in one batch.")] = None,
    compact_every: Annotated[
        int, typer.Option(min=0, help="Join small files after so many batches; 0 for never.")
    ] = 100,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics for Prometheus on this port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve metrics on; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    broker: BrokerUrl = "",
    registry: RegistryUrl = "",
    master: Master = "",
    as_json: bool = Json,
) -> None:
    """Keep tables in step with channels, exactly once; what cannot be read goes to quarantine.

    Example: dragoman pipeline run --channel loan-broker.request --to tables --once
    """
    from dragoman.pipeline.configuration import Settings, read_settings
    from dragoman.pipeline.running import Flow

    if config is not None:
        _refuse_beside_a_file(context)
        settings = read_settings(config)
    elif channel and to is not None:
        flows = tuple(
            Flow(
                each,
                version=version,
                merge_by=tuple(merge_by or ()),
                partition_by=tuple(partition_by or ()),
                starting_offsets=starting_offsets,
                max_rows_per_trigger=max_rows_per_trigger,
                compact_every=compact_every,
            )
            for each in channel
        )
        settings = Settings(str(to), flows, table_format, name, broker, registry, checkpoint)
    else:
        raise ConfigurationError("Which channel, and where to?", next="Give --channel and --to, or --config.")
    _run(settings, master, once, (metrics_port, metrics_host), as_json)


def _refuse_beside_a_file(context: typer.Context) -> None:
    """What the file says cannot be said on the command line too."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name not in _BESIDE_A_FILE
        and (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if given:
        raise ConfigurationError(
            f"--config stands for {', '.join(given)}.", next="Write it in the file, or give no file."
        )


def _run(
    settings: Settings, master: str, once: bool, metrics_at: tuple[int | None, str], as_json: bool
) -> None:
    from dragoman.pipeline.metrics import Metrics

    last: dict[str, Progress] = {}
    metrics = Metrics()
    with ExitStack() as stack:
        port, host = metrics_at
        if port is not None:
            hint(f"Metrics are served on {host}, port {stack.enter_context(metrics.served(port, host))}.")
        pipeline = stack.enter_context(settings.pipeline(spark_session(master)))
        status = stack.enter_context(err.status("Spark is starting"))

        def watch(progress: Progress) -> None:
            metrics.update(progress)
            if last.get(progress.pipeline) != progress:
                last[progress.pipeline] = progress
                status.update(_line(progress))

        try:
            pipeline.run(once=once, watch=watch)
        except KeyboardInterrupt:
            status.update("Stopping")
    _summary(last, as_json)


def _line(progress: Progress) -> str:
    behind = "" if progress.behind is None else f", {progress.behind} behind"
    return (
        f"{progress.pipeline}: {progress.valid} rows, {progress.quarantined} quarantined, "
        f"{progress.rows_per_second:.0f} rows/s{behind}"
    )


def _summary(last: dict[str, Progress], as_json: bool) -> None:
    rows = [asdict(progress) for progress in last.values()]
    if as_json:
        emit_json(rows)
        return
    columns = ("pipeline", "batch", "read", "valid", "quarantined")
    emit_table(columns, [[row[column] for column in columns] for row in rows], empty="Nothing was read.")


def sql(
    query: Annotated[
        str, typer.Argument(help="SQL; channels are tables such as dragoman.`loan-broker.request`.")
    ],
    limit: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 100,
    broker: BrokerUrl = "",
    registry: RegistryUrl = "",
    master: Master = "",
    as_json: bool = Json,
) -> None:
    """Ask the channels in SQL.

    Example: dragoman pipeline sql 'SELECT customer, count(*) FROM dragoman.`loan-broker.request` GROUP BY 1'
    """
    spark = spark_session(master)
    from dragoman.pipeline.faults import spark_faults
    from dragoman.pipeline.views import catalog

    catalog(spark, broker or default_broker(), registry or default_registry())
    with spark_faults():
        frame: Any = spark.sql(query)
        rows = [row.asDict(recursive=True) for row in frame.limit(limit).collect()]
    if as_json:
        emit_json(rows)
    elif not rows:
        say("No rows.")
    else:
        emit_table(tuple(rows[0]), [tuple(row.values()) for row in rows])
