"""``dragoman registry code``: Python records of a contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.output import Json, answer_no, emit_json, hint, run, say
from dragoman.cli.registry.options import NameAndVersion, RegistryUrl, Token, opened, split_version


def code(
    contract: NameAndVersion,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; standard output else.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the file is out of date.")
    ] = False,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Write Python records for a contract's schema, of any format. The same schema gives the same text.

    Example: dragoman registry code orders-value@2 -o records.py
    """
    from dragoman.registry.code import Generated, generate

    name, version = split_version(contract)
    if check and output is None:
        raise typer.BadParameter("--check needs the file: --output FILE")

    async def work() -> Generated:
        async with opened(registry, token) as found:
            return await generate(found, name, version)

    made = run(work())
    if not made.faithful:
        hint("The records read and write these messages, but their own schema differs in detail.")
    if output is None:
        emit_json({"source": made.source}) if as_json else typer.echo(made.source, nl=False)
        return
    stale = not output.is_file() or output.read_text(encoding="utf-8") != made.source
    if not check:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(made.source, encoding="utf-8")
    if as_json:
        emit_json({"file": str(output), "stale": stale, "faithful": made.faithful})
    else:
        say(f"{output} is {'out of date' if stale else 'up to date'}." if check else f"Wrote {output}.")
    if check and stale:
        answer_no()
