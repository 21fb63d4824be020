"""``pipeline quarantine``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.output import Json, answer_no, emit_json, emit_table, say
from dragoman.cli.pipeline.options import (
    BrokerUrl,
    RegistryUrl,
    TableName,
    Target,
    Token,
    kept,
    source_options,
)

if TYPE_CHECKING:
    from dragoman.pipeline.quarantined import Which

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
    """List what is in quarantine, with the reasons.

    Example: dragoman pipeline quarantine list --to tables --table loan_broker_request
    """
    from dragoman.pipeline.quarantined import entries

    quarantine = kept(to, table).quarantine
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
    """Show one message whole, its frame in hexadecimal.

    Example: dragoman pipeline quarantine show --to tables --partition 0 --offset 17
    """
    from dragoman.pipeline.quarantined import entries

    quarantine = kept(to, table).quarantine
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
    token: Token = "",
    as_json: bool = Json,
) -> None:
    """Decode them again, and move what passes into the table.

    Example: dragoman pipeline quarantine retry --to tables --table loan_broker_request
    """
    from dragoman.pipeline.quarantined import Retry

    found = kept(to, table)
    which = _which(code, channel, partition, offset, schema_id)
    moved = left = outdated = 0
    with found.held():
        for flow, state in zip(found.flows, found.states, strict=True):
            credentials = (("registryToken", token),) if token else ()
            options = source_options(flow.channel, broker, registry, (*flow.options, *credentials))
            work = Retry(flow, found.table, found.quarantine, state, options)
            done = work.run(replace(which, pipeline=state.home.name))
            moved, left, outdated = moved + done.moved, left + done.left, outdated + done.outdated
    if as_json:
        emit_json({"moved": moved, "left": left, "outdated": outdated})
    else:
        late = f" {outdated} were dropped: there was something later of their keys." if outdated else ""
        say(f"{moved} messages moved into {found.name}, {left} stay in quarantine.{late}")


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
    """Remove messages from quarantine for good.

    Example: dragoman pipeline quarantine discard --to tables --partition 0 --offset 17
    """
    from dragoman.core.errors import ConfigurationError
    from dragoman.pipeline.quarantined import Which, discard

    which = _which(code, channel, partition, offset, schema_id)
    if which == Which() and not everything:
        raise ConfigurationError("Which ones?", next="Give a filter such as --code, or --all.")
    found = kept(to, table)
    with found.held():
        count = discard(found.quarantine, which)
    if as_json:
        emit_json({"discarded": count})
    else:
        say(f"{count} messages were discarded.")
