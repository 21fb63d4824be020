"""``dragoman channel publish``, ``tail`` and ``replay``: messages into channels, out of them, and again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.channel.options import (
    BrokerUrl,
    From,
    Name,
    RegistryUrl,
    connected,
    contracts_of,
    milliseconds,
    moment,
    pairs,
)
from dragoman.cli.channel.showing import readable, show
from dragoman.cli.damage import LeftOut, SkipDamaged, passable
from dragoman.cli.output import Json, answer_no, emit_json, err, hint, run, say
from dragoman.client.history import history
from dragoman.client.jsonvalue import encode_json
from dragoman.client.replay import replay as replay_channel
from dragoman.core.errors import MessageError
from dragoman.core.message import Message

BATCH = 500


def publish(
    channel: Name,
    values: Annotated[
        list[str] | None, typer.Argument(help="Messages as JSON; else lines of a file.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, allow_dash=True, help="A file with one JSON message per line."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of all messages.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE.")] = None,
    contract: Annotated[str | None, typer.Option(help="The contract, if not CHANNEL-value.")] = None,
    delay: Annotated[float, typer.Option(help="Seconds until they are delivered.")] = 0.0,
    broker: BrokerUrl = None,
    registry: RegistryUrl = None,
    as_json: bool = Json,
) -> None:
    """Publish JSON under the latest version of the channel's contract.

    From the arguments, a file, or standard input, one message per line. Lines that the contract refuses are
    reported and left out; the exit code is then 1.

    Example: dragoman channel publish orders '{"number": 1}' --key 1
    """
    given = tuple((name, value.encode()) for name, value in pairs(header))
    raw_key = None if key is None else key.encode()

    async def work() -> tuple[int, int]:
        async with connected(broker) as opened, contracts_of(registry) as contracts:
            codec = await contracts.plain_codec(contract or f"{channel}-value")
            await opened.describe(channel)
            sent = refused = 0
            batch: list[Message] = []
            for number, line in _lines(values, file):
                try:
                    payload = encode_json(codec, json.loads(line))
                except (ValueError, MessageError) as error:
                    refused += 1
                    err.print(f"line {number}: {error}", markup=False, soft_wrap=True)
                    continue
                batch.append(Message(channel, payload, raw_key, given))
                if len(batch) == BATCH:
                    sent += len(await opened.publish(batch, delay))
                    batch.clear()
            if batch:
                sent += len(await opened.publish(batch, delay))
            return sent, refused

    sent, refused = run(work())
    if as_json:
        emit_json({"channel": channel, "published": sent, "refused": refused})
    else:
        say(f"Published {sent} message{'s' if sent != 1 else ''} to {channel}.")
    if refused:
        answer_no(f"{refused} refused.")


def tail(
    channel: Name,
    start: From = None,
    last: Annotated[int, typer.Option(help="So many from the end of each partition, without --from.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Show frames as they are, without a registry.")] = False,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    registry: RegistryUrl = None,
    as_json: bool = Json,
) -> None:
    """Show messages, decoded by their contracts. Touches no group.

    Example: dragoman channel tail orders --from earliest --follow
    """
    begin = None if start is None else moment(start)
    left_out = LeftOut()

    async def work() -> None:
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(connected(broker))
            contracts = None if raw else await stack.enter_async_context(contracts_of(registry))
            shown = 0
            async for message in history(
                opened,
                channel,
                start=begin or "earliest",
                last=last if begin is None else None,
                follow=follow,
                damaged=left_out if skip_damaged else None,
            ):
                show(await readable(message, contracts), as_json)
                shown += 1
                if shown == limit:
                    return

    try:
        with passable():
            run(work())
    except KeyboardInterrupt:
        hint("Stopped.")


def replay(
    source: Annotated[str, typer.Argument(help="The channel to read.")],
    target: Annotated[str, typer.Argument(help="The channel to publish to; may be the same.")],
    start: From = None,
    until: Annotated[str | None, typer.Option(help="Leave out this time and what came later.")] = None,
    skip_damaged: SkipDamaged = False,
    broker: BrokerUrl = None,
    as_json: bool = Json,
) -> None:
    """Publish the past of a channel once more; frames, keys and headers as they are.

    Example: dragoman channel replay orders orders.again --until 2026-01-31
    """
    end = None if until is None else milliseconds(until)
    begin = moment(start or "earliest")
    left_out = LeftOut()
    damaged = left_out if skip_damaged else None

    async def work() -> int:
        async with connected(broker) as opened:
            await opened.describe(target)
            if as_json or not err.is_terminal:
                return await replay_channel(opened, source, target, start=begin, until=end, damaged=damaged)
            with err.status("Replaying") as status:
                return await replay_channel(
                    opened,
                    source,
                    target,
                    start=begin,
                    until=end,
                    damaged=damaged,
                    progress=lambda sent: status.update(f"Replayed {sent:,} messages"),
                )

    with passable():
        sent = run(work())
    if as_json:
        answer = {"source": source, "target": target, "replayed": sent}
        emit_json({**answer, "damaged": left_out.count} if skip_damaged else answer)
    else:
        say(f"Replayed {sent} message{'s' if sent != 1 else ''} from {source} to {target}.")


def _lines(values: list[str] | None, file: Path | None) -> Iterator[tuple[int, str | bytes]]:
    """With their numbers, and as bytes: what is not UTF-8 is one line's fault, not that of the others."""
    if values and file:
        raise typer.BadParameter("Give messages or a file, not both.")
    if values:
        yield from enumerate(values, 1)
        return
    stream = sys.stdin.buffer if file is None or str(file) == "-" else file.open("rb")
    with stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield number, line
