"""``dragoman registry keys``: who may use a server that asks for credentials."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dragoman.cli.output import Json, emit_json, emit_table, hint, run, say, when
from dragoman.cli.registry.options import RegistryUrl, Token, opened

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_keys(registry: RegistryUrl = None, token: Token = None, as_json: bool = Json) -> None:
    """List keys, without their secrets.

    Example: dragoman registry keys list
    """
    from dragoman.registry.administration import administer

    async def work() -> list[dict[str, Any]]:
        async with opened(registry, token) as found:
            return list(await administer(found).keys())

    rows = [
        (
            each["id"],
            each["owner"],
            ", ".join(each["grants"]),
            when(each["created"]),
            when(each["expires"]),
        )
        for each in run(work())
    ]
    emit_table(
        ("id", "owner", "grants", "created", "expires"), rows, as_json=as_json, empty="There are no keys."
    )


@app.command()
def create(
    owner: Annotated[str, typer.Argument(help="Who gets it; shown in the history.")],
    grant: Annotated[
        list[str], typer.Option(help="read, write or admin; for a prefix of names: write:orders-")
    ],
    days: Annotated[float | None, typer.Option(min=0, help="Days until it expires.")] = None,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Make a key. Its secret is shown now and never again.

    Example: dragoman registry keys create ci --grant read --grant write:orders- --days 90
    """
    from dragoman.registry.administration import administer

    async def work() -> dict[str, Any]:
        async with opened(registry, token) as found:
            return await administer(found).create_key(owner, grant, None if days is None else days * 86_400)

    made = run(work())
    if as_json:
        emit_json(made)
        return
    say(f"user      {made['id']}")
    say(f"password  {made['secret']}")
    say(f"token     {made['token']}")
    hint("Use user and password for HTTP Basic, or the token as a bearer token. Keep them safe.")


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id.")],
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Revoke a key. Servers that run stop accepting it within half a minute.

    Example: dragoman registry keys revoke KEY-ID
    """
    from dragoman.registry.administration import administer

    async def work() -> None:
        async with opened(registry, token) as found:
            await administer(found).revoke_key(key)

    run(work())
    if as_json:
        emit_json({"revoked": key})
    else:
        say(f"Revoked {key}.")
