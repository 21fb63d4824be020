"""``dragoman channel bridge``: a channel of one broker brought to another."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Annotated, NamedTuple

import typer

from dragoman.cli.channel.options import From, connected, moment
from dragoman.cli.output import Json, emit_json, run, say
from dragoman.cli.signals import until_ended
from dragoman.client.bridge import Bridge, End
from dragoman.core.channel import check_name
from dragoman.core.defaults import default_broker
from dragoman.core.errors import ConfigurationError, DamagedLog
from dragoman.core.loading import redacted, scheme_of


class Address(NamedTuple):
    """``broker`` is ``None`` for the default one."""

    broker: str | None
    channel: str


def address(text: str) -> Address:
    """``kafka://host:9092/orders?option=1`` is the channel ``orders`` of ``kafka://host:9092?option=1``.

    A name alone is a channel of the default broker.
    """
    if "://" not in text:
        return Address(None, check_name(text))
    scheme_of(text)
    place, mark, options = text.partition("?")
    broker, slash, channel = place.rpartition("/")
    if not slash or broker.endswith(":/") or not channel:
        raise ConfigurationError(
            f"{redacted(text)!r} names no channel.",
            next="Write the channel behind the broker: kafka://host:9092/orders",
        )
    return Address(broker + mark + options, check_name(channel))


async def _stop_when_asked(bridge: Bridge) -> None:
    await until_ended().wait()
    bridge.stop()


def default_group(target: Address) -> str:
    """Bridges to different targets do not take each other's messages. Who a user is makes no difference."""
    broker = target.broker or default_broker()
    scheme, _, rest = broker.partition("?")[0].partition("://")
    place = sha256(rest.rpartition("@")[2].encode()).hexdigest()[:8]
    return f"bridge-to-{scheme}-{place}-{target.channel}"


def bridge(
    source: Annotated[str, typer.Argument(metavar="FROM", help="BROKER-URL/CHANNEL, or a channel's name.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="BROKER-URL/CHANNEL, or a channel's name.")],
    group: Annotated[
        str | None, typer.Option(help="Under which the source remembers how far the bridge is.")
    ] = None,
    start: From = None,
    idle: Annotated[float | None, typer.Option(help="End when nothing came for so many seconds.")] = None,
    as_json: bool = Json,
) -> None:
    """Copy a channel to another broker, and go on with what comes.

    At least once: after a crash it goes on where it was, and may copy the last messages again. Ended by
    Ctrl-C or SIGTERM, it copies nothing twice if both brokers answer. Keys, headers, frames and the order
    per key are kept. Damaged messages stop their partition only. If it stands at them when the bridge ends by
    --idle, the command fails.

    Example: dragoman channel bridge kafka://localhost:9092/orders nats://localhost/orders
    """
    left, right = address(source), address(target)
    if default_group(left) == default_group(right):
        raise ConfigurationError(
            "The bridge would copy the channel into itself, without end.",
            next="Name another channel or another broker to copy to.",
            channel=left.channel,
        )
    begin = moment(start or "earliest")

    async def work() -> tuple[int, DamagedLog | None]:
        async with connected(left.broker) as from_broker, connected(right.broker) as to_broker:
            made = Bridge(
                End(from_broker, left.channel),
                End(to_broker, right.channel),
                group=group or default_group(right),
                start=begin,
            )
            ending = asyncio.create_task(_stop_when_asked(made))
            try:
                return await made.run(idle), made.standing_at
            finally:
                ending.cancel()

    copied, damage = run(work())
    if as_json:
        emit_json({"source": left.channel, "target": right.channel, "copied": copied})
    else:
        say(f"Copied {copied} message{'s' if copied != 1 else ''} from {left.channel} to {right.channel}.")
    if damage is not None:
        raise damage
