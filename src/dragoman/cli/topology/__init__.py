"""``dragoman topology``: who publishes and subscribes where, and why by this transport."""

from __future__ import annotations

import typer

from dragoman.cli.topology import announcing, explaining, listing

app = typer.Typer(no_args_is_help=True)
app.command("list")(listing.list_endpoints)
app.command()(listing.watch)
app.command()(explaining.explain)
app.command()(announcing.announce)
app.command()(announcing.key)
