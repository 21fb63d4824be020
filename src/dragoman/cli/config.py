"""``dragoman config``: the settings in force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_table, hint, say
from dragoman.cli.registry.options import CONNECTIONS, LIMITS
from dragoman.cli.serve import ServeSettings
from dragoman.core.defaults import Places
from dragoman.core.errors import Conflict
from dragoman.core.loading import redacted
from dragoman.core.settings import FILE, Setting, all_settings, settings_file, variable
from dragoman.registry.http.connections import ConnectionLimits
from dragoman.registry.limits import Limits

app = typer.Typer(no_args_is_help=True)

SECTIONS: dict[str, type] = {
    "": Places,
    "serve": ServeSettings,
    LIMITS: Limits,
    CONNECTIONS: ConnectionLimits,
}


@app.command()
def show(as_json: bool = Json) -> None:
    """Show every setting, its value, and where that came from.

    Example: DRAGOMAN_BROKER=kafka://localhost:9092 dragoman config show
    """
    rows = [(each.name, _shown(each), each.origin) for each in all_settings(SECTIONS)]
    emit_table(["setting", "value", "from"], rows, as_json=as_json)
    if not as_json and not settings_file().exists():
        hint(f"There is no {settings_file()}; 'dragoman config init' writes one.")


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path(FILE),
) -> None:
    """Write a file of settings with all of them in comments, to change.

    Example: dragoman config init
    """
    if path.exists():
        raise Conflict(f"{path} is there already.", code="configuration.exists", next="Edit it.")
    path.write_text(template())
    say(f"Wrote {path}.")


def template() -> str:
    """All settings with their defaults, commented out."""
    lines = ["# Settings of Dragoman. An environment variable, named beside each, counts before this file."]
    section = None
    for each in all_settings(SECTIONS):
        name = each.name.rpartition(".")
        if name[0] != section:
            section = name[0]
            lines += ["", f"[{section}]"] if section else [""]
        lines += [f"# {each.help} ({variable(each.name)})", f"# {name[2]} = {_toml(each.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if value is None:
        return '""'
    return str(value) if isinstance(value, int | float) else f'"{value}"'


def _shown(each: Setting) -> object:
    """The value, without what nobody should read over a shoulder."""
    if each.value in (None, "", ()):
        return ""
    if each.name.endswith(("secret", "password", "token")):
        return "***"
    return redacted(each.value) if isinstance(each.value, str) else each.value
