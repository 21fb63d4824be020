"""The history of Kafka's topics by offset."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from dragoman.adapters.kafka.administration import TIMEOUT, Administration
from dragoman.adapters.kafka.configuration import read_settings
from dragoman.adapters.kafka.faults import faults, translated
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound
from dragoman.core.log import LogSlice, pack_headers

SLICE = 20_000
_POLL = 0.5
_SETTINGS = {
    "queued.min.messages": 100_000,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "fetch.queue.backoff.ms": 10,
    "auto.offset.reset": "earliest",
}
_PASSING = frozenset(
    getattr(KafkaError, name) for name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")
)


class KafkaLogReader:
    """Implements ``dragoman.core.broker.LogReader`` with a consumer that joins no group.

    Only committed messages are read. What compaction and aborted transactions have left out makes gaps.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._settings = read_settings(url)
        self._opened: tuple[Administration, Any] | None = None
        self._at: tuple[str, int, int] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return KafkaLogReader, (self._url,)

    @property
    def _administration(self) -> Administration:
        return self._open()[0]

    @property
    def _consumer(self) -> Any:
        return self._open()[1]

    def _open(self) -> tuple[Administration, Any]:
        if self._opened is None:
            settings = self._settings.for_consuming()
            for name in ("group.protocol", "group.remote.assignor", "group.instance.id"):
                settings.pop(name, None)
            with faults():
                consumer = Consumer(
                    {
                        **_SETTINGS,
                        **settings,
                        "group.id": "dragoman-log-reader",
                        "enable.auto.commit": False,
                        "enable.auto.offset.store": False,
                        "enable.partition.eof": True,
                        "isolation.level": "read_committed",
                    }
                )
            self._opened = Administration(self._settings.common), consumer
        return self._opened

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        places = [(channel, partition) for partition in self._administration.partitions(channel)]
        first, last = self._administration.earliest(places), self._administration.ends(places)
        return {place[1]: (first[place], last[place]) for place in places}

    def channels(self) -> Sequence[str]:
        return self._administration.channels()

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        place = (channel, partition)
        self._check(channel, partition)
        return self._administration.at_time([place], timestamp)[place]

    def _check(self, channel: str, partition: int) -> None:
        if partition not in self._administration.partitions(channel):
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel)

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        if end <= start:
            return _slice([], start)
        self._go_to(channel, partition, start)
        # What an error leaves untold, or comes from behind the end, the next read has to fetch again.
        self._at = None
        deadline = time.monotonic() + TIMEOUT
        found: list[Any] = []
        while not found:
            if time.monotonic() > deadline:
                raise BrokerUnavailable("Kafka sends nothing.", channel=channel, partition=partition)
            for raw in self._poll(min(SLICE, end - start), channel, partition):
                if raw.error() is not None:
                    # Where the partition ended when the driver came there. It may have grown since.
                    if raw.offset() < end and raw.offset() < self._end(channel, partition):
                        continue
                    return _slice(found, min(end, raw.offset()))
                if raw.offset() >= end:
                    return _slice(found, end)
                found.append(raw)
        after = found[-1].offset() + 1
        self._at = (channel, partition, after)
        return _slice(found, after)

    def _end(self, channel: str, partition: int) -> int:
        place = (channel, partition)
        return self._administration.ends([place])[place]

    def _poll(self, limit: int, channel: str, partition: int) -> list[Any]:
        """What there is, without waiting for as many as there may be."""
        with faults(channel=channel, partition=partition):
            first = self._consumer.poll(_POLL)
            if first is None:
                return []
            found = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        kept = []
        for raw in found:
            error = raw.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                kept.append(raw)
            elif error.code() not in _PASSING:
                raise translated(error, channel=channel, partition=partition)
        return kept

    def _go_to(self, channel: str, partition: int, start: int) -> None:
        if self._at == (channel, partition, start):
            return
        if self._at is None or self._at[:2] != (channel, partition):
            self._check(channel, partition)
        with faults(channel=channel, partition=partition):
            self._consumer.assign([TopicPartition(channel, partition, start)])

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None


def _slice(found: list[Any], next_offset: int) -> LogSlice:
    values = [raw.value() for raw in found]
    keys = [raw.key() for raw in found]
    headers = [_packed(raw.headers()) for raw in found]
    return LogSlice(
        count=len(found),
        offsets=_little(array("q", [raw.offset() for raw in found])),
        timestamps=_little(array("q", [raw.timestamp()[1] for raw in found])),
        value_bounds=_bounds(values),
        values=b"".join([value or b"" for value in values]),
        value_nulls=bytes([value is None for value in values]),
        key_bounds=_bounds(keys),
        keys=b"".join([key or b"" for key in keys]),
        key_nulls=bytes([key is None for key in keys]),
        header_bounds=_bounds(headers),
        headers=b"".join(headers),
        next_offset=next_offset,
    )


def _packed(headers: list[tuple[str, bytes | None]] | None) -> bytes:
    return pack_headers(tuple((name, value or b"") for name, value in headers)) if headers else b""


def _bounds(parts: Iterable[bytes | None]) -> bytes:
    return _little(array("i", accumulate((len(part) if part else 0 for part in parts), initial=0)))


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
