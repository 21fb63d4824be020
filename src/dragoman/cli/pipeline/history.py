"""``pipeline audit``, ``backfill`` and ``infer``: what can be done with a channel's history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.damage import LeftOut, SkipDamaged, passable
from dragoman.cli.output import Json, answer_no, emit_json, emit_table, say
from dragoman.cli.pipeline.options import (
    BrokerUrl,
    Master,
    RegistryUrl,
    TableFormat,
    source_options,
    spark_session,
)
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.schema.naming import channel_of

if TYPE_CHECKING:
    from dragoman.pipeline.auditing import AuditReport


def audit(
    contract: Annotated[str, typer.Option(help="The contract that is to get a new version.")],
    schema: Annotated[Path, typer.Option(help="The candidate's file, such as new.avsc.")],
    channel: Annotated[str, typer.Option(help="The channel; that of the contract if not given.")] = "",
    schema_type: Annotated[str, typer.Option(help="AVRO, JSON, PROTOBUF or THRIFT.")] = "AVRO",
    html: Annotated[Path | None, typer.Option(help="Also write a report as a page.")] = None,
    broker: BrokerUrl = "",
    registry: RegistryUrl = "",
    master: Master = "",
    as_json: bool = Json,
) -> None:
    """Find out before registering whether all of history would be readable. Exit code 1 if not.

    Example: dragoman pipeline audit --contract loan-broker.request-value --schema new.avsc --html audit.html
    """
    try:
        text = schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or "it is not text"
        raise ConfigurationError(f"The file cannot be read: {why}.", file=schema) from error
    spark = spark_session(master)
    from dragoman.pipeline.arrow import SchemaText
    from dragoman.pipeline.auditing import audit_channel
    from dragoman.pipeline.faults import spark_faults
    from dragoman.pipeline.report import html_report

    options = source_options(channel or channel_of(contract), broker, registry)
    with spark_faults():
        report = audit_channel(spark, options, contract, SchemaText(schema_type.upper(), text))
    _show_audit(report, as_json)
    if html is not None:
        _save(html_report(report), html)
    if not report.readable:
        answer_no(f"{report.audit.failed} of {report.audit.read} messages would not be readable.")
    if not as_json:
        say(f"All {report.audit.read} messages would be readable.")


def _show_audit(report: AuditReport, as_json: bool) -> None:
    from dragoman.pipeline.profile import PROFILED

    rows = [
        (
            report.versions.get(finding.schema_id),
            finding.partition,
            finding.code or "readable",
            finding.path,
            number,
            ", ".join(str(offset) for offset, _ in report.audit.samples.get(finding, [])),
        )
        for finding, number in sorted(report.audit.counts.items())
        if number
    ]
    columns = ("version", "partition", "outcome", "field", "messages", "examples")
    if not as_json:
        emit_table(columns, rows, empty="The channel is empty.")
        emit_table(PROFILED, report.profile.rows(), empty="There are no fields to tell of.")
        return
    emit_json(
        {
            "read": report.audit.read,
            "failed": report.audit.failed,
            "findings": [dict(zip(columns, row, strict=True)) for row in rows],
            "defaults": {str(found): list(names) for found, names in report.defaults.items()},
            "profile": [dict(zip(PROFILED, row, strict=True)) for row in report.profile.rows()],
        }
    )


def _save(page: str, file: Path) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"The file cannot be written: {error.strerror}.", next="Name another place.", file=file
        ) from error


def backfill(
    source: Annotated[str, typer.Argument(help="The channel whose history is replayed.")],
    target: Annotated[str, typer.Argument(help="A folder of tables, or channel:NAME.")],
    version: Annotated[str, typer.Option(help="The contract's version to bring messages to.")] = "latest",
    start: Annotated[str, typer.Option("--from", help="earliest, a time, or offsets as JSON.")] = "earliest",
    end: Annotated[str, typer.Option("--until", help="latest, a time, or offsets as JSON.")] = "latest",
    table_format: TableFormat = "delta",
    table: Annotated[str, typer.Option(help="The table's name; the channel's if not given.")] = "",
    name: Annotated[str, typer.Option(help="The same name goes on where it was cut short.")] = "backfill",
    state: Annotated[Path, typer.Option(help="Where progress is kept for a channel as target.")] = Path(
        ".dragoman/backfill"
    ),
    broker: BrokerUrl = "",
    registry: RegistryUrl = "",
    master: Master = "",
    as_json: bool = Json,
) -> None:
    """Replay a channel's history into a table or another channel; run it again to go on.

    Example: dragoman pipeline backfill loan-broker.request tables --from 2026-01-01T00:00:00Z
    """
    spark = spark_session(master)
    from dragoman.pipeline.backfill import Backfill

    work = Backfill(
        spark,
        source,
        version=version,
        start=start,
        end=end,
        name=name,
        broker=broker or default_broker(),
        registry=registry or default_registry(),
    )
    kind, _, channel = target.partition(":")
    done = (
        work.to_channel(channel, state)
        if kind == "channel" and channel
        else work.to_table(target, table_format, table)
    )
    if as_json:
        emit_json({"valid": done.valid, "quarantined": done.quarantined})
    else:
        say(f"{done.valid} messages replayed, {done.quarantined} in quarantine.")


def infer(
    channel: Annotated[str, typer.Option(help="The channel with JSON messages and no contract.")],
    sample: Annotated[int, typer.Option(min=1, help="Messages to look at.")] = 10_000,
    schema_type: Annotated[str, typer.Option(help="JSON, AVRO, PROTOBUF or THRIFT.")] = "JSON",
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = "",
) -> None:
    """Propose a contract for untyped JSON messages.

    Example: dragoman pipeline infer --channel clicks --sample 1000
    """
    from dragoman.pipeline.inference import infer_schema

    left_out = LeftOut() if skip_damaged else None
    with passable():
        found = infer_schema(broker or default_broker(), channel, sample, schema_type.upper(), left_out)
    typer.echo(found)
