"""Reading channels as they grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dragoman.core.errors import BrokerUnavailable
from dragoman.pipeline.batch import RangePartition
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.offsets import Offsets, in_order, limited
from dragoman.pipeline.plan import ReadPlan, channels_of, open_log
from dragoman.pipeline.ranges import (
    bound_offsets,
    grouped,
    kept_offsets,
    ranges_between,
    refuse_lost,
    refuse_shrunk,
    split,
)
from dragoman.pipeline.reading import RangeReader
from dragoman.pipeline.types import arrow_schema
from dragoman.pipeline.waiting import patiently

WAIT_SECONDS = 24 * 3600.0


class ChannelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark keeps the offsets in its checkpoint; nothing is acknowledged at the broker."""

    def __init__(self, plan: ReadPlan, schema: Any) -> None:
        self._plan = plan
        self._schema = arrow_schema(schema)
        self._seconds = WAIT_SECONDS if plan.options.wait_seconds is None else plan.options.wait_seconds
        self._target: Offsets | None = None

    @across_spark()
    def initialOffset(self) -> Offsets:
        """Only asked for when there is no checkpoint."""

        def find() -> Offsets:
            log = open_log(self._plan.options.broker)
            kept = kept_offsets(log, self._channels(), self._plan.options)
            return bound_offsets(log, kept, self._plan.options.starting_offsets, "earliest")

        return patiently(find, self._seconds)

    @across_spark()
    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """While the broker is away there is nothing new: the query waits, and goes on when it is back."""
        try:
            end = self._ends() if self._target is None else self._target
        except BrokerUnavailable:
            return in_order(start)
        if self._plan.options.ending_offsets is None:
            refuse_shrunk(start, end, self._plan.options)
        end = _not_before(start, end)
        return limited(start, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._plan.options.max_rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @across_spark()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = patiently(self._ends, self._seconds)

    def reportLatestOffset(self) -> Offsets | None:
        try:
            return self._ends()
        except BrokerUnavailable:
            return None

    @across_spark()
    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        ranges = ranges_between(start, end)
        kept = patiently(self._kept, self._seconds)
        refuse_lost(ranges, kept, start, self._plan.options)
        return [RangePartition(each) for each in grouped(split(ranges, self._plan.options.min_partitions))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        return partition.read_by(RangeReader(self._plan, self._schema, self._seconds, streaming=True))

    def _channels(self) -> list[str]:
        """A pattern finds channels that are made while the query runs."""
        return channels_of(open_log(self._plan.options.broker), self._plan.options.channel)

    def _kept(self) -> dict[str, dict[int, tuple[int, int]]]:
        return kept_offsets(open_log(self._plan.options.broker), self._channels(), self._plan.options)

    def _ends(self) -> Offsets:
        """With ``endingOffsets`` the stream never goes beyond them, however the channel grows."""
        bound = self._plan.options.ending_offsets or "latest"
        return bound_offsets(open_log(self._plan.options.broker), self._kept(), bound, "latest")


def _not_before(start: Offsets, end: Offsets) -> Offsets:
    """The end, but never behind the start, and with every partition that the start has."""
    reached: dict[str, dict[str, int]] = {channel: dict(inner) for channel, inner in start.items()}
    for channel, inner in end.items():
        kept = reached.setdefault(channel, {})
        for partition, high in inner.items():
            kept[partition] = max(high, kept.get(partition, 0))
    return in_order(reached)
