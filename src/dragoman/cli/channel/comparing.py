"""``dragoman channel capabilities``: what each broker can do."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, emit_table
from dragoman.client.comparison import compare
from dragoman.core.loading import BROKERS, names


def capabilities(
    schemes: Annotated[list[str] | None, typer.Argument(help="kafka, redis, ...; all, if not given.")] = None,
    as_json: bool = Json,
) -> None:
    """Show what each broker can do, as its adapter declares it.

    Example: dragoman channel capabilities kafka mqtt
    """
    for scheme in schemes or ():
        if scheme not in names(BROKERS):
            raise typer.BadParameter(f"{scheme!r} is none of {', '.join(names(BROKERS))}.")
    table = compare(schemes)
    if as_json:
        emit_json(table)
        return
    found = list(next(iter(table.values())))
    emit_table(("capability", *found), [(name, *cells.values()) for name, cells in table.items()])
