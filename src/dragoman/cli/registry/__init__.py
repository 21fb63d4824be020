"""``dragoman registry``: contracts, their versions and schemas, on a database or behind a server."""

from __future__ import annotations

import typer

from dragoman.cli.registry import checking, contracts, generating, keys, moving, serving

app = typer.Typer(no_args_is_help=True)
app.command()(serving.serve)
app.command("list")(contracts.list_contracts)
app.command()(contracts.show)
app.command()(contracts.register)
app.command()(checking.check)
app.command()(contracts.diff)
app.command()(contracts.delete)
app.command()(contracts.history)
app.command()(contracts.bind)
app.command("compatibility")(contracts.set_compatibility)
app.command()(generating.code)
app.command("export")(moving.export)
app.command("import")(moving.import_directory)
app.command()(moving.backup)
app.command()(moving.migrate)
app.add_typer(keys.app, name="keys", help="Keys and passwords of those who may use a server.")
