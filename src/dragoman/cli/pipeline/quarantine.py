"""``pipeline quarantine``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.output import Json, answer_no, emit_json, emit_table, say
from dragoman.cli.pipeline.options import (
    BrokerUrl,
    RegistryUrl,
    TableName,
    Target,
    one_flow,
    source_options,
)

if TYPE_CHECKING:
    from dragoman.pipeline.quarantined import Which
    from dragoman.pipeline.tables import Table

app = typer.Typer(no_args_is_help=True)

Code = Annotated[str, typer.Option(help="Only messages with this error code.")]
ChannelName = Annotated[str, typer.Option("--channel", help="Only messages of this channel.")]
Partition = Annotated[int | None, typer.Option(help="Only messages of this partition.")]
Offset = Annotated[int | None, typer.Option(help="Only the message at this offset.")]
SchemaId = Annotated[int | None, typer.Option(help="Only messages with this schema id.")]


def _which(
    code: str, channel: str, partition: int | None, offset: int | None, schema_id: int | None
) -> Which:
    from dragoman.pipeline.quarantined import Which

    return Which(code, channel, partition, offset, schema_id)


def _tables(table_format: str, to: Any, flow: Any) -> tuple[Table, Table]:
    from dragoman.pipeline.tables import open_table

    name = flow.table_name
    return open_table(table_format, str(to), name), open_table(table_format, str(to), f"{name}_quarantine")


@app.command("list")
def list_entries(
    to: Target,
    table: TableName = "",
    code: Code = "",
    channel: ChannelName = "",
    partition: Partition = None,
    offset: Offset = None,
    schema_id: SchemaId = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 100,
    as_json: bool = Json,
) -> None:
    """List what is in quarantine, with the reasons."""
    from dragoman.pipeline.quarantined import entries

    _, flow, table_format = one_flow(to, table)
    _, quarantine = _tables(table_format, to, flow)
    columns = ("channel", "partition", "offset", "code", "path", "reason", "time")
    rows = entries(quarantine, _which(code, channel, partition, offset, schema_id)).slice(0, limit)
    found = [tuple(row[column] for column in columns) for row in rows.select(list(columns)).to_pylist()]
    emit_table(columns, found, as_json=as_json, empty="The quarantine is empty.")


@app.command()
def show(
    to: Target,
    partition: Annotated[int, typer.Option(help="The message's partition.")],
    offset: Annotated[int, typer.Option(help="The message's offset.")],
    table: TableName = "",
    channel: ChannelName = "",
    as_json: bool = Json,
) -> None:
    """Show one message whole, its frame in hexadecimal."""
    from dragoman.pipeline.quarantined import entries

    _, flow, table_format = one_flow(to, table)
    _, quarantine = _tables(table_format, to, flow)
    rows = entries(quarantine, _which("", channel, partition, offset, None)).to_pylist()
    if not rows:
        answer_no("There is no such message in quarantine.")
    shown = {**rows[0], "frame": (rows[0]["frame"] or b"").hex(" ")}
    if as_json:
        emit_json(shown)
    else:
        emit_table(("", "value"), list(shown.items()))


@app.command()
def retry(
    to: Target,
    table: TableName = "",
    code: Code = "",
    channel: ChannelName = "",
    partition: Partition = None,
    offset: Offset = None,
    schema_id: SchemaId = None,
    broker: BrokerUrl = "",
    registry: RegistryUrl = "",
    as_json: bool = Json,
) -> None:
    """Decode them again, and move what passes into the table."""
    from dragoman.pipeline.quarantined import Retry

    state, flow, table_format = one_flow(to, table)
    kept, quarantine = _tables(table_format, to, flow)
    with state.held():
        work = Retry(flow, kept, quarantine, state, source_options(flow.channel, broker, registry))
        done = work.run(_which(code, channel, partition, offset, schema_id))
    if as_json:
        emit_json({"moved": done.moved, "left": done.left})
    else:
        say(f"{done.moved} messages moved into {flow.table_name}, {done.left} stay in quarantine.")


@app.command()
def discard(
    to: Target,
    table: TableName = "",
    code: Code = "",
    channel: ChannelName = "",
    partition: Partition = None,
    offset: Offset = None,
    schema_id: SchemaId = None,
    everything: Annotated[bool, typer.Option("--all", help="Needed to discard without a filter.")] = False,
    as_json: bool = Json,
) -> None:
    """Remove messages from quarantine for good."""
    from dragoman.core.errors import ConfigurationError
    from dragoman.pipeline.quarantined import Which, discard

    which = _which(code, channel, partition, offset, schema_id)
    if which == Which() and not everything:
        raise ConfigurationError("Which ones?", next="Give a filter such as --code, or --all.")
    state, flow, table_format = one_flow(to, table)
    _, quarantine = _tables(table_format, to, flow)
    with state.held():
        count = discard(quarantine, which)
    if as_json:
        emit_json({"discarded": count})
    else:
        say(f"{count} messages were discarded.")
