"""``dragoman gateway keys``: back ends that may drop off and collect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from dragoman.cli.gateway.options import DEFAULT_STORE, StoreUrl
from dragoman.cli.output import Json, emit_json, emit_table, hint, run, say, when
from dragoman.core.errors import NotFound
from dragoman.gateway.store.port import Store

app = typer.Typer(no_args_is_help=True)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    from dragoman.gateway.store.opening import open_store

    store = open_store(url)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@app.command()
def create(
    owner: Annotated[str, typer.Argument(help="Who gets it; owns what it drops off.")],
    resource: Annotated[
        list[str] | None, typer.Option(help="Good for this resource only; may be repeated.")
    ] = None,
    days: Annotated[float | None, typer.Option(min=0, help="Days until it expires.")] = None,
    store: StoreUrl = DEFAULT_STORE,
    as_json: bool = Json,
) -> None:
    """Make a key. It is shown now and never again.

    Example: dragoman gateway keys create partner --resource service.loans --days 365
    """
    from dragoman.gateway.security.keys import create_key

    async def work() -> str:
        async with opened(store) as found:
            seconds = None if days is None else days * 86_400
            return await create_key(found, owner, resources=resource or (), seconds=seconds)

    key = run(work())
    if as_json:
        emit_json({"key": key, "owner": owner})
        return
    say(key)
    hint("It goes into client.authorization. Keep it safe: only its hash is stored.")


@app.command("list")
def list_keys(store: StoreUrl = DEFAULT_STORE, as_json: bool = Json) -> None:
    """List keys, without their secrets.

    Example: dragoman gateway keys list
    """

    async def work() -> list[tuple[object, ...]]:
        async with opened(store) as found:
            return [
                (
                    each.id,
                    each.owner,
                    ", ".join(each.resources) or "all",
                    when(each.created),
                    when(each.expires),
                )
                for each in await found.keys()
            ]

    columns = ("id", "owner", "resources", "created", "expires")
    emit_table(columns, run(work()), as_json=as_json, empty="There are no keys.")


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, the part before the dot.")],
    store: StoreUrl = DEFAULT_STORE,
    as_json: bool = Json,
) -> None:
    """Revoke a key. When the command returns, no gateway on this store takes it any more.

    Example: dragoman gateway keys revoke gk_0123456789abcdef
    """

    async def work() -> bool:
        async with opened(store) as found:
            return await found.revoke_key(key)

    if not run(work()):
        raise NotFound(f"There is no key {key!r}.", code="gateway.not-found.key")
    if as_json:
        emit_json({"revoked": key})
    else:
        say(f"Revoked {key}.")
