"""What the commands print: tables and sentences for people, JSON for programs, errors that help."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragoman.core.errors import DragomanError

T = TypeVar("T")

Json = typer.Option(False, "--json", help="Print JSON for programs.")

out = Console(highlight=False)
"""Results, on standard output."""
err = Console(stderr=True, highlight=False)
"""Progress, hints and errors, on standard error."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the asynchronous body of a command."""
    return asyncio.run(work)


def emit_json(value: object) -> None:
    """One JSON document on one line. Bytes are shown as text where they are text, else in hexadecimal."""
    json.dump(value, sys.stdout, default=_plain, ensure_ascii=False, separators=(", ", ": "))
    sys.stdout.write("\n")


def emit_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool = False, empty: str = ""
) -> None:
    """Rows for people as a table, for programs as a JSON list of objects."""
    rows = [tuple(row) for row in rows]
    if as_json:
        emit_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    if not rows:
        say(empty or "Nothing found.")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
    out.print(table)


def when(seconds: float | None) -> str | None:
    """Seconds since the epoch as a time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def say(text: str) -> None:
    """A sentence on standard output; brackets in it are text, not markup."""
    out.print(escape(text), soft_wrap=True)


def hint(text: str) -> None:
    err.print(f"[dim]{escape(text)}[/dim]", soft_wrap=True)


def answer_no(text: str = "") -> NoReturn:
    """The command worked, and the answer is no: exit code 1."""
    if text:
        err.print(f"[yellow]{escape(text)}[/yellow]", soft_wrap=True)
    raise typer.Exit(1)


def explain(error: DragomanError, *, as_json: bool = False) -> None:
    """An error as a person or a program wants it: what, where, what next, and its code."""
    if as_json:
        where = {name: _plain(value) for name, value in error.where.items()}
        body = {"code": error.code, "what": error.what, "where": where, "next": error.next}
        sys.stderr.write(json.dumps({"error": body}, ensure_ascii=False) + "\n")
        return
    err.print(f"[red bold]error[/red bold] [dim]{error.code}[/dim] {escape(error.what)}", soft_wrap=True)
    for name, value in error.where.items():
        err.print(f"  [dim]{name}[/dim] {escape(str(value))}", soft_wrap=True)
    if error.next:
        err.print(f"  {escape(error.next)}", soft_wrap=True)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
