"""Commands that move whole registries: export, import, backup, migrate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, run, say
from dragoman.cli.registry.options import RegistryUrl, Token, limits, opened
from dragoman.core.defaults import default_registry
from dragoman.core.loading import DATABASES, load, redacted, scheme_of


def export(
    directory: Annotated[Path, typer.Argument(help="A new directory, or an earlier export.")],
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Write everything into a directory of files that is fit for Git.

    Example: dragoman registry export contracts/
    """
    from dragoman.registry.administration import administer
    from dragoman.registry.directory import write_directory

    async def work() -> int:
        async with opened(registry, token) as found:
            return write_directory(await administer(found).export(), directory)

    files = run(work())
    if as_json:
        emit_json({"directory": str(directory), "files": files})
    else:
        say(f"Wrote {files} files to {directory}.")


def import_directory(
    source: Annotated[Path, typer.Argument(help="The directory of an export, or the file of a backup.")],
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Bring an export in, all or nothing. Ids and versions are kept; what is there already stays.

    Example: dragoman registry import contracts/ --registry sqlite://new.db
    """
    from dragoman.registry.administration import administer
    from dragoman.registry.bundle import from_json
    from dragoman.registry.directory import read_directory

    bundle = from_json(source.read_bytes()) if source.is_file() else read_directory(source)

    async def work() -> Mapping[str, int]:
        async with opened(registry, token) as found:
            return await administer(found).restore(bundle)

    done = run(work())
    if as_json:
        emit_json(dict(done))
    else:
        say(f"{done['added']} versions added, {done['known']} were there already.")


def backup(
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Back up a live registry: a database file from SQLite, an export in one file from others.

    Example: dragoman registry backup registry.backup
    """
    from dragoman.registry.administration import back_up

    async def work() -> str:
        async with opened(registry, token) as found:
            return await back_up(found, target)

    kind = run(work())
    if as_json:
        emit_json({"file": str(target), "kind": kind})
        return
    how = (
        f"Use it as sqlite://{target}" if kind == "sqlite" else "Bring it back with: dragoman registry import"
    )
    say(f"Wrote {target}. {how}")


def migrate(
    registry: RegistryUrl = None,
    as_json: bool = Json,
) -> None:
    """Bring a database's tables up to date, as a server does when it starts.

    Example: dragoman registry migrate --registry postgresql://localhost/registry
    """
    from dragoman.registry.parsing import Parser
    from dragoman.registry.upgrading import upgrade

    url = registry or default_registry()
    database = load(DATABASES, scheme_of(url))(url)
    try:
        before, after = upgrade(database, Parser(limits()))
    finally:
        database.close()
    if as_json:
        emit_json({"before": before, "after": after})
    else:
        say(
            f"{redacted(url)} has shape {after}" + (f", before {before}." if before != after else " already.")
        )
