"""``dragoman channel skip``: past messages that are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from dragoman.cli.channel.options import BrokerUrl, Name, connected
from dragoman.cli.output import Json, emit_json, run, say
from dragoman.core.broker import Broker, DamagedRange, SkipsDamage
from dragoman.core.errors import Unsupported
from dragoman.core.loading import redacted


def skip(
    channel: Name,
    group: Annotated[str, typer.Option(help="The group to move.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Move a group past damaged messages that it stands at. They are lost to the group, their files stay.

    Example: dragoman channel skip orders --group billing
    """

    async def find() -> Sequence[DamagedRange]:
        async with connected(broker) as opened:
            return await _able(opened).damage(channel, group)

    async def move() -> Sequence[DamagedRange]:
        async with connected(broker) as opened:
            return await _able(opened).skip_damage(channel, group)

    if not yes:
        ahead = run(find())
        if ahead:
            typer.echo("\n".join(map(_line, ahead)), err=True)
            typer.confirm(f"Move {group} past them?", abort=True, err=True)
    skipped = run(move())
    if as_json:
        rows = [{"partition": each.partition, "first": each.first, "until": each.until} for each in skipped]
        emit_json({"channel": channel, "group": group, "skipped": rows})
        return
    for each in skipped:
        say(_line(each))
    lost = sum(each.until - each.first for each in skipped)
    say(f"{group} has lost {lost} messages." if lost else f"{group} stands at no damaged message.")


def _line(each: DamagedRange) -> str:
    count = each.until - each.first
    return f"partition {each.partition}: {count} damaged, offsets {each.first} to {each.until - 1}"


def _able(opened: Broker) -> SkipsDamage:
    if not isinstance(opened, SkipsDamage):
        raise Unsupported(
            "Only the embedded broker keeps its messages in files of ours.",
            next="Use the tools of this broker.",
            broker=redacted(opened.url),
        )
    return opened
