"""``pipeline vacuum``, ``compact`` and ``status``: looking after the tables."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, emit_table, say
from dragoman.cli.pipeline.options import TableName, Target, kept


def vacuum(
    to: Target,
    table: TableName = "",
    older_than: Annotated[
        float, typer.Option(min=0, help="Hours; younger files may still be committed.")
    ] = 24.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: bool = Json,
) -> None:
    """Remove files that no table refers to, and the tables' history that is older.

    With less than an hour, no pipeline may be running: what it writes just now looks like left over.

    Example: dragoman pipeline vacuum --to tables --dry-run
    """
    from dragoman.pipeline.vacuum import vacuum

    found = kept(to, table)
    with found.held() if older_than < 1 else nullcontext():
        removed = [
            path
            for each in (found.table, found.quarantine)
            for path in vacuum(each, found.states, older_than * 3600, dry_run=dry_run)
        ]
    if as_json:
        emit_json({"files": [str(path) for path in removed], "removed": not dry_run})
    else:
        say(f"{len(removed)} files {'would be' if dry_run else 'were'} removed.")


def compact(to: Target, table: TableName = "", as_json: bool = Json) -> None:
    """Join small files into larger ones, in the table and in its quarantine.

    Example: dragoman pipeline compact --to tables --table loan_broker_request
    """
    found = kept(to, table)
    with found.held():
        count = sum(each.compact() for each in (found.table, found.quarantine))
    if as_json:
        emit_json({"joined": count})
    else:
        say(f"{count} files were joined.")


def status(to: Target, as_json: bool = Json) -> None:
    """Show each pipeline that writes here: batches, rows, quarantine.

    Example: dragoman pipeline status --to tables
    """
    from dragoman.pipeline.events import read_events
    from dragoman.pipeline.running import Pipeline

    found = [
        (flow.table_name, flow.channel, table_format, read_events(state.events, state.folder.name))
        for state, flow, table_format in Pipeline.flows_below(str(to))
    ]
    columns = ("table", "channel", "format", "batch", "read", "valid", "quarantined")
    rows = [
        (table, channel, table_format, done.batch, done.read, done.valid, done.quarantined)
        for table, channel, table_format, done in found
    ]
    emit_table(columns, rows, as_json=as_json, empty="No pipeline has written here.")
