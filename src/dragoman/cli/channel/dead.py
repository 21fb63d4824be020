"""``dragoman channel dead``: letters that nobody could handle, looked at, sent back or put away."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NamedTuple

import typer

from dragoman.cli.channel.options import BrokerUrl, Name, RegistryUrl, connected, contracts_of, milliseconds
from dragoman.cli.channel.showing import plain, readable, time
from dragoman.cli.damage import LeftOut, SkipDamaged, passable
from dragoman.cli.output import Json, answer_no, emit_json, emit_table, run, say
from dragoman.client import headers as names
from dragoman.client.dead_letters import DeadLetter, DeadLetters
from dragoman.core.broker import Broker
from dragoman.core.errors import ChannelNotFound

app = typer.Typer(no_args_is_help=True)

Code = Annotated[str | None, typer.Option(help="Only errors whose code begins so.")]
Since = Annotated[str | None, typer.Option(help="Only those that failed at this time or later.")]
Endpoint = Annotated[str | None, typer.Option(help="Only those of this endpoint.")]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids as PARTITION:OFFSET; or use --all.")]
Invalid = Annotated[bool, typer.Option("--invalid", help="Invalid messages instead of dead letters.")]
All = Annotated[bool, typer.Option("--all", help="All that the filters let through.")]


class Filters(NamedTuple):
    code: str | None
    since: str | None
    endpoint: str | None

    async def find(self, letters: DeadLetters) -> list[DeadLetter]:
        since = None if self.since is None else milliseconds(self.since)
        return await letters.find(code=self.code, since=since, endpoint=self.endpoint)


@app.command("list")
def list_letters(
    channel: Name,
    code: Code = None,
    since: Since = None,
    endpoint: Endpoint = None,
    invalid: Invalid = False,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """List the letters of a channel that nobody has dealt with yet.

    Example: dragoman channel dead list orders --since 2026-01-31T12:00:00
    """

    async def work() -> list[DeadLetter]:
        async with connected(broker) as opened:
            try:
                letters = _letters(opened, channel, invalid, LeftOut() if skip_damaged else None)
                return await Filters(code, since, endpoint).find(letters)
            except ChannelNotFound:
                await opened.describe(channel)
                return []

    with passable():
        found = run(work())
    columns = ("id", "failed", "code", "error", "endpoint", "attempts", "replays", "message")
    rows = [
        (
            letter.id,
            time(letter.failed_at),
            letter.code,
            letter.cause(names.ERROR_TYPE),
            letter.cause(names.ENDPOINT),
            letter.cause(names.ATTEMPTS),
            letter.cause(names.REPLAYS) or "0",
            letter.cause(names.ERROR_MESSAGE),
        )
        for letter in found
    ]
    emit_table(columns, rows, as_json=as_json, empty="There are no open letters.")


@app.command()
def show(
    channel: Name,
    id: Annotated[str, typer.Argument(help="PARTITION:OFFSET, as listed.")],
    invalid: Invalid = False,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    registry: RegistryUrl = None,
    as_json: bool = Json,
) -> None:
    """Show one letter: why it is there, and what is in it.

    Example: dragoman channel dead show orders 0:17
    """

    async def work() -> dict[str, Any]:
        async with connected(broker) as opened, contracts_of(registry) as contracts:
            left_out = LeftOut() if skip_damaged else None
            letter = await _letters(opened, channel, invalid, left_out).get(id)
            return await readable(letter.message, contracts)

    with passable():
        found = run(work())
    if as_json:
        emit_json(found)
        return
    for name, value in (found.pop("headers") | found).items():
        say(f"{name}: {value if isinstance(value, str) else json.dumps(value, default=plain)}")


@app.command()
def replay(
    channel: Name,
    ids: Ids = None,
    everything: All = False,
    code: Code = None,
    since: Since = None,
    endpoint: Endpoint = None,
    invalid: Invalid = False,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Send letters back to the channel they came from, once.

    Example: dragoman channel dead replay orders --all --code broker
    """
    chosen = _chosen(ids, everything, Filters(code, since, endpoint))
    _settle("replayed", chosen, channel, invalid, LeftOut() if skip_damaged else None, broker, as_json)


@app.command()
def discard(
    channel: Name,
    ids: Ids = None,
    everything: All = False,
    code: Code = None,
    since: Since = None,
    endpoint: Endpoint = None,
    invalid: Invalid = False,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Put letters away: they are dealt with, and listed no more.

    Example: dragoman channel dead discard orders 0:17 0:18
    """
    chosen = _chosen(ids, everything, Filters(code, since, endpoint))
    _settle("discarded", chosen, channel, invalid, LeftOut() if skip_damaged else None, broker, as_json)


def _chosen(ids: list[str] | None, everything: bool, filters: Filters) -> list[str] | Filters:
    if bool(ids) == everything:
        raise typer.BadParameter("Name the letters by their ids, or use --all.")
    return ids or filters


def _settle(
    how: Literal["replayed", "discarded"],
    chosen: list[str] | Filters,
    channel: str,
    invalid: bool,
    left_out: LeftOut | None,
    broker: str | None,
    as_json: bool,
) -> None:
    async def work() -> int:
        async with connected(broker) as opened:
            letters = _letters(opened, channel, invalid, left_out)
            if isinstance(chosen, Filters):
                found = await chosen.find(letters)
            else:
                found = await letters.get_all(chosen)
            await (letters.replay(found) if how == "replayed" else letters.discard(found))
            return len(found)

    with passable():
        count = run(work())
    if as_json:
        emit_json({how: count} if left_out is None else {how: count, "damaged": left_out.count})
    else:
        say(f"{count} letter{'s' if count != 1 else ''} {how}.")
    if not count:
        answer_no()


def _letters(broker: Broker, channel: str, invalid: bool, left_out: LeftOut | None) -> DeadLetters:
    """``orders`` and ``orders.dead`` both mean the letters of ``orders``."""
    suffix = ".invalid" if invalid else ".dead"
    name = channel if channel.endswith(suffix) else channel + suffix
    return DeadLetters(broker, name, damaged=left_out)
