"""The history of the memory broker's channels, as columns."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from dragoman.adapters.memory.bus import Bus
from dragoman.adapters.memory.partition import Partition
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.log import LogSlice, pack_headers

SLICE = 10_000


class MemoryLogReader:
    """Implements ``dragoman.core.broker.LogReader`` for the process that holds the messages."""

    def __init__(self, find: Callable[[], Bus]) -> None:
        self._find = find

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        bus = self._find()
        with bus.lock:
            bus.bring_in_due(bus.clock.now())
            return {
                number: (partition.base, partition.end)
                for number, partition in enumerate(bus.topic(channel).partitions)
            }

    def channels(self) -> Sequence[str]:
        bus = self._find()
        with bus.lock:
            return sorted(bus.topics)

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        bus = self._find()
        with bus.lock:
            return self._partition(bus, channel, partition).offset_at(timestamp)

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        bus = self._find()
        with bus.lock:
            log = self._partition(bus, channel, partition)
            first = max(start, log.base)
            messages = log.slice(first, max(0, min(end - first, SLICE)))
        keys = [message.key for message in messages]
        values = [message.payload for message in messages]
        headers = [pack_headers(message.headers) for message in messages]
        return LogSlice(
            count=len(messages),
            offsets=_little(array("q", (message.offset or 0 for message in messages))),
            timestamps=_little(array("q", (message.timestamp or 0 for message in messages))),
            value_bounds=_bounds(values),
            values=b"".join(value or b"" for value in values),
            value_nulls=bytes(value is None for value in values),
            key_bounds=_bounds(keys),
            keys=b"".join(key or b"" for key in keys),
            key_nulls=bytes(key is None for key in keys),
            header_bounds=_bounds(headers),
            headers=b"".join(headers),
            next_offset=first + len(messages),
        )

    @staticmethod
    def _partition(bus: Bus, channel: str, partition: int) -> Partition:
        partitions = bus.topic(channel).partitions
        if not 0 <= partition < len(partitions):
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel)
        return partitions[partition]

    def close(self) -> None:
        """Nothing is held."""

    def __reduce__(self) -> tuple[object, ...]:
        raise ConfigurationError(
            "What memory:// holds cannot be read by another process.",
            next="Use embedded:// or another broker that several processes share.",
        )


def _bounds(parts: Iterable[bytes | None]) -> bytes:
    return _little(array("i", accumulate((len(part or b"") for part in parts), initial=0)))


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
