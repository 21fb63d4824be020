"""``dragoman gateway``: drop-off and collection points for clients outside."""

from __future__ import annotations

import typer

from dragoman.cli.gateway import checking, keys, sep_key, serving

app = typer.Typer(no_args_is_help=True)
app.command()(serving.serve)
app.command()(checking.check)
app.command("sep-key")(sep_key.sep_key)
app.add_typer(keys.app, name="keys", help="Keys of back ends that may drop off and collect.")
