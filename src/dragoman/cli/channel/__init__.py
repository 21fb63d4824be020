"""``dragoman channel``: channels, the messages in them, and the letters nobody could handle."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dragoman.cli.channel import altering, bridging, comparing, dead, messages, skipping
from dragoman.cli.channel.options import BrokerUrl, Name, connected, pairs
from dragoman.cli.output import Json, emit_json, emit_table, run, say
from dragoman.core.channel import Channel

app = typer.Typer(no_args_is_help=True)
app.add_typer(dead.app, name="dead", help="Dead letters and invalid messages: look, send back, put away.")
app.command()(messages.publish)
app.command()(messages.tail)
app.command()(messages.replay)
app.command()(bridging.bridge)
app.command()(altering.alter)
app.command()(comparing.capabilities)
app.command()(skipping.skip)


@app.command("list")
def list_channels(broker: BrokerUrl = None, as_json: bool = Json) -> None:
    """List all channels.

    Example: dragoman channel list --broker kafka://localhost:9092
    """

    async def work() -> list[tuple[object, ...]]:
        async with connected(broker) as opened:
            found = [await opened.describe(name) for name in await opened.channels()]
        return [(each.name, each.partitions, each.retention) for each in found]

    emit_table(
        ("channel", "partitions", "retention"), run(work()), as_json=as_json, empty="There are no channels."
    )


@app.command()
def create(
    channel: Name,
    partitions: Annotated[
        int, typer.Option(min=1, help="How many handlers may share it, in order per key.")
    ] = 4,
    retention: Annotated[
        float | None, typer.Option(help="Seconds to keep messages; all, if not given.")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the broker's own.")] = None,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Create a channel. One that is there already is left as it is.

    Example: dragoman channel create orders --partitions 8 --retention 604800
    """
    wanted = Channel(channel, partitions, retention, dict(pairs(setting)))

    async def work() -> bool:
        async with connected(broker) as opened:
            return await opened.create(wanted)

    made = run(work())
    if as_json:
        emit_json({"channel": channel, "created": made})
    else:
        say(f"Created {channel}." if made else f"{channel} was there already.")


@app.command()
def describe(channel: Name, broker: BrokerUrl = None, as_json: bool = Json) -> None:
    """Show a channel's settings, and where each partition begins and ends.

    Example: dragoman channel describe orders
    """

    async def work() -> tuple[Channel, dict[int, tuple[int, int]]]:
        async with connected(broker) as opened:
            found = await opened.describe(channel)
            if not opened.capabilities.replay:
                return found, {}
            return found, dict(opened.log().partitions(channel))

    found, bounds = run(work())
    if as_json:
        rows = [{"partition": number, "start": start, "end": end} for number, (start, end) in bounds.items()]
        emit_json({**asdict(found), "bounds": rows})
        return
    say(f"{found.name}: {found.partitions} partitions, retention {found.retention or 'unlimited'}")
    for name, value in found.settings.items():
        say(f"  {name} = {value}")
    emit_table(("partition", "start", "end"), [(number, *both) for number, both in sorted(bounds.items())])


@app.command()
def delete(
    channel: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Delete a channel and all its messages.

    Example: dragoman channel delete orders --yes
    """
    if not yes:
        typer.confirm(f"Delete {channel} and all its messages?", abort=True, err=True)

    async def work() -> None:
        async with connected(broker) as opened:
            await opened.delete(channel)

    run(work())
    emit_json({"channel": channel, "deleted": True}) if as_json else say(f"Deleted {channel}.")


@app.command()
def lag(
    channel: Name,
    group: Annotated[str | None, typer.Option(help="This group alone.")] = None,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Show how far each group is behind.

    Example: dragoman channel lag orders --group billing
    """

    async def work() -> list[tuple[object, ...]]:
        async with connected(broker) as opened:
            found = await opened.lag(channel, group)
        return [(each.group, each.partition, each.committed, each.end, each.behind) for each in found]

    columns = ("group", "partition", "committed", "end", "behind")
    emit_table(columns, run(work()), as_json=as_json, empty="No group reads this channel.")
