"""``dragoman channel alter``: other settings for a channel that exists."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.channel.options import BrokerUrl, Name, connected, pairs
from dragoman.cli.output import Json, emit_json, run, say
from dragoman.core.channel import Channel


def alter(
    channel: Name,
    partitions: Annotated[int | None, typer.Option(min=1, help="They may grow, never shrink.")] = None,
    retention: Annotated[float | None, typer.Option(help="Seconds to keep messages.")] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Keep messages without limit.")] = False,
    setting: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the broker's own.")] = None,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Change a channel's settings. What is not named stays as it is.

    Example: dragoman channel alter orders --partitions 16 --keep-all
    """
    if keep_all and retention is not None:
        raise typer.BadParameter("Use --retention or --keep-all, not both.")

    async def work() -> Channel:
        async with connected(broker) as opened:
            old = await opened.describe(channel)
            kept = None if keep_all else old.retention if retention is None else retention
            await opened.alter(
                Channel(channel, partitions or old.partitions, kept, {**old.settings, **dict(pairs(setting))})
            )
            return await opened.describe(channel)

    found = run(work())
    if as_json:
        emit_json({"channel": channel, "partitions": found.partitions, "retention": found.retention})
    else:
        say(f"{channel}: {found.partitions} partitions, retention {found.retention or 'unlimited'}")
