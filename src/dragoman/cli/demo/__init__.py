"""``dragoman demo``: what this is about, in a minute, on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from dragoman.cli.output import answer_no


def demo(
    folder: Path = typer.Option(None, help="Where to put everything; a new folder if not given."),
    messages: int = typer.Option(4_000, min=100, help="Loan requests that are sent."),
    tables: bool = typer.Option(True, help="Also keep them in tables with Spark."),
) -> None:
    """See it work: producers, consumers, a kill, and every message accounted for."""
    from dragoman.cli.demo.story import Story

    place = folder or Path(tempfile.mkdtemp(prefix="dragoman-demo-"))
    if not Story(place.absolute(), messages, tables).tell():
        answer_no("The numbers do not add up.")
