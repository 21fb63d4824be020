"""A channel in RabbitMQ: an exchange of its name, and a stream per partition bound to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.adapters.rabbitmq import names
from dragoman.adapters.rabbitmq.catalog import Catalog, Entry
from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.locks import holding
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError, Unsupported
from dragoman.core.options import positive_int

SETTINGS: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "max_bytes": ("x-max-length-bytes", positive_int),
    "segment_bytes": ("x-stream-max-segment-size-bytes", positive_int),
    "replicas": ("x-initial-cluster-size", positive_int),
}


def stream_arguments(channel: Channel) -> dict[str, Any]:
    """Retention and settings as the server wants them. Unknown settings are refused."""
    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    if channel.retention is not None:
        arguments["x-max-age"] = f"{max(1, round(channel.retention))}s"
    for name, text in channel.settings.items():
        if name not in SETTINGS:
            raise ConfigurationError(
                f"Unknown setting {name!r} of a channel.",
                code="configuration.option",
                next=f"Known settings: {', '.join(sorted(SETTINGS))}.",
                channel=channel.name,
            )
        argument, read = SETTINGS[name]
        try:
            arguments[argument] = read(text)
        except ValueError as error:
            raise ConfigurationError(
                f"The setting {name} cannot be {text!r}: {error}", channel=channel.name
            ) from error
    return arguments


class Channels:
    """Changes to channels, one at a time for each of them, whoever makes them."""

    def __init__(self, link: Link, catalog: Catalog) -> None:
        self._link = link
        self._catalog = catalog

    async def create(self, channel: Channel) -> bool:
        arguments = stream_arguments(channel)
        async with holding(self._link, names.door(channel.name)):
            await self._catalog.refresh()
            if self._catalog.known(channel.name) is not None:
                return False
            async with self._link.borrowed() as pipe:
                await pipe.exchange_declare(channel.name, exchange_type="direct", durable=True)
            await self._add(channel, 0, arguments)
            await self._catalog.record_channel("create", channel)
            return True

    async def alter(self, channel: Channel) -> None:
        arguments = stream_arguments(channel)
        async with holding(self._link, names.door(channel.name)):
            before = (await self._catalog.entry(channel.name)).channel
            if channel.partitions < before.partitions:
                raise ConfigurationError(
                    f"{before.partitions} partitions cannot become {channel.partitions}.",
                    next="Partitions may grow, never shrink.",
                    channel=channel.name,
                )
            if arguments != stream_arguments(before):
                raise Unsupported(
                    "RabbitMQ cannot change retention or settings of a stream.",
                    next="Set a policy on the server, or make a new channel.",
                    channel=channel.name,
                )
            await self._add(channel, before.partitions, arguments)
            await self._catalog.record_channel("alter", channel)

    async def _add(self, channel: Channel, first: int, arguments: dict[str, Any]) -> None:
        """The streams of its partitions, from ``first`` on, with their births."""

        async def add(partition: int) -> None:
            stream = names.stream(channel.name, partition)
            async with self._link.borrowed(confirms=True) as pipe:
                # What a creator left behind that died on the way may have other settings.
                await pipe.queue_delete(stream)
                await pipe.bear(stream, arguments)
                await pipe.queue_bind(stream, channel.name, str(partition))

        await asyncio.gather(*(add(partition) for partition in range(first, channel.partitions)))

    async def delete(self, channel: str) -> None:
        async with holding(self._link, names.door(channel)):
            entry = await self._catalog.entry(channel)
            async with self._link.borrowed() as pipe:
                await pipe.exchange_delete(channel)
                for name in _queues(channel, entry):
                    await pipe.queue_delete(name)
            await self._catalog.record("delete", channel)


def _queues(channel: str, entry: Entry) -> list[str]:
    """Its streams, and what its groups keep."""
    partitions = range(entry.channel.partitions)
    return [
        *(names.stream(channel, partition) for partition in partitions),
        *(
            names.position(channel, partition, group, "")
            for group in entry.groups
            for partition in partitions
        ),
    ]
