"""``dragoman saga``: which sagas run, what happened to one, and another try for one that is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, emit_table, say
from dragoman.client.saga.ledger import Ledger
from dragoman.core.database import Database
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import DATABASES, load, path_of, scheme_of

app = typer.Typer(no_args_is_help=True)

Url = Annotated[
    str,
    typer.Option(
        "--database", envvar="DRAGOMAN_DATABASE", help="The orchestrator's, such as sqlite://app.db."
    ),
]
Id = Annotated[str, typer.Argument(help="The id of a saga.")]


@app.command("list")
def list_sagas(
    database: Url,
    state: Annotated[
        str | None, typer.Option(help="Only running, compensating, completed, rejected or stuck ones.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to look at, the youngest first.")] = 100,
    as_json: bool = Json,
) -> None:
    """List sagas, the youngest first.

    Example: dragoman saga list --database sqlite://front.db --state stuck
    """
    with _ledger(database) as ledger:
        found = [each.shown() for each in ledger.list(limit, only=state)]
    rows = [
        (each["id"], each["saga"], each["state"], each["step"], _time(each["updated"]), each["problem"])
        for each in found
    ]
    columns = ("id", "saga", "state", "step", "updated", "problem")
    emit_table(columns, rows, as_json=as_json, empty="There are no sagas.")


@app.command()
def show(id: Id, database: Url, as_json: bool = Json) -> None:
    """Show where a saga stands, its data, and all that happened to it.

    Example: dragoman saga show s-1 --database sqlite://front.db
    """
    with _ledger(database) as ledger:
        progress, events = ledger.show(id)
    shown = progress.shown()
    if as_json:
        emit_json({**shown, "events": [each._asdict() for each in events]})
        return
    say(f"{shown['saga']} {id}: {shown['state']}, step {shown['step']}")
    if shown["problem"]:
        say(f"  {shown['problem']}")
    for name, value in shown["data"].items():
        say(f"  {name} = {value}")
    emit_table(("time", "event"), [(_time(each.happened), each.event) for each in events])


@app.command()
def retry(id: Id, database: Url, as_json: bool = Json) -> None:
    """Let a saga that is stuck send its command again.

    Example: dragoman saga retry s-1 --database sqlite://front.db
    """
    with _ledger(database) as ledger:
        shown = ledger.retry(id).shown()
    emit_json(shown) if as_json else say(f"{id} goes on with step {shown['step']}.")


@contextmanager
def _ledger(url: str) -> Iterator[Ledger]:
    scheme, path = scheme_of(url), path_of(url)
    if scheme == "sqlite" and not Path(path).is_file():
        # SQLite would make an empty one.
        raise ConfigurationError(
            f"There is no database {path!r}.", next="Name the orchestrator's: --database sqlite://app.db"
        )
    database: Database = load(DATABASES, scheme)(url)
    try:
        yield Ledger(database)
    finally:
        database.close()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
