"""``dragoman pipeline``: channels as tables, with Spark."""

from __future__ import annotations

import typer

from dragoman.cli.pipeline import history, quarantine, running, tables

app = typer.Typer(no_args_is_help=True)
app.command()(running.run)
app.command()(running.sql)
app.command()(history.audit)
app.command()(history.backfill)
app.command()(history.infer)
app.add_typer(quarantine.app, name="quarantine", help="Messages that could not become rows, and why.")
app.command()(tables.vacuum)
app.command()(tables.compact)
app.command()(tables.status)
