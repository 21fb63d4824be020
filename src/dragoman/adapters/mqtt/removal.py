"""The end of a channel: the sessions that groups had for it, with all that waits in them."""

from __future__ import annotations

import asyncio

from dragoman.adapters.mqtt.channels import level
from dragoman.adapters.mqtt.connection import open_connection
from dragoman.adapters.mqtt.control import Control
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.wire import Connect


async def end_sessions(options: Options, control: Control, channel: str) -> None:
    """Of members that are there, too: they are told so by the loss of their connection."""
    place = f"{options.prefix}/groups"
    found: set[str] = set()

    def tell(topic: str, payload: bytes) -> None:
        if payload:
            found.add(topic)

    # Groups are one level, the channel the next, seats the last: a filter of its own for all groups.
    watching = object()
    await control.watch(f"{place}/+/{level(channel)}/+", watching, tell)
    await control.sync()
    await control.unwatch(f"{place}/+/{level(channel)}/+", watching)
    for topic in found:
        group, _, number = topic.removeprefix(f"{place}/").split("/")
        await _end(options, f"{options.prefix}/{group}/{level(channel)}/{number}")
        await control.put(topic, b"")


async def _end(options: Options, client: str) -> None:
    """Whoever starts a session clean has ended the one before."""
    greeting = Connect(client, True, options.keep_alive, options.username, options.password)
    connection = await open_connection(options, greeting, lambda _: None, lambda _: None)
    await connection.close()
    await asyncio.sleep(0)
