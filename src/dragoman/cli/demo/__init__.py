"""``dragoman demo``: all of it at work together, in two minutes, on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from dragoman.cli.output import answer_no


def demo(
    folder: Path = typer.Option(None, help="Where to put everything; a new folder if not given."),
    requests: int = typer.Option(2_000, min=200, help="Loan requests that customers drop off."),
    tables: bool = typer.Option(True, help="Also keep the channels in tables with Spark."),
    broker: str = typer.Option(
        None, help="Run it on another broker, such as kafka://localhost:9092; else on an embedded one."
    ),
    keep: bool = typer.Option(False, "--keep", help="Leave everything running until Ctrl-C."),
) -> None:
    """See it work: the loan broker, from its model to its tables, and every message accounted for.

    Example: dragoman demo --requests 500 --no-tables
    """
    from dragoman.cli.demo.story import Story, Wishes

    place = folder or Path(tempfile.mkdtemp(prefix="dragoman-demo-"))
    if not Story(place.absolute(), Wishes(requests, tables, broker, keep)).tell():
        answer_no("The numbers do not add up.")
