"""The history of the memory broker's channels, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dragoman.adapters.memory.bus import Bus
from dragoman.adapters.memory.partition import Partition
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.log import LogSlice, slice_of

SLICE = 10_000


class MemoryLogReader:
    """Implements ``dragoman.core.broker.LogReader`` for the process that holds the messages."""

    def __init__(self, find: Callable[[], Bus]) -> None:
        self._find = find

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        bus = self._find()
        with bus.lock:
            bus.bring_in_due(bus.clock.monotonic())
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
        return slice_of(messages, first)

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
