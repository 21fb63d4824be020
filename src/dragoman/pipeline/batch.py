"""Reading channels as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.plan import ReadPlan, open_log
from dragoman.pipeline.ranges import bound_offsets, grouped, kept_offsets, ranges_between, refuse_lost, split
from dragoman.pipeline.reading import Range, RangeReader
from dragoman.pipeline.types import arrow_schema
from dragoman.pipeline.waiting import patiently

WAIT_SECONDS = 30.0


class RangePartition(InputPartition):
    """One task: ranges of partitions, none at all if there is nothing to read."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges

    def read_by(self, reader: RangeReader) -> Iterator[Any]:
        with across_spark():
            for each in self.ranges:
                yield from reader.batches(each)


class ChannelReader(DataSourceReader):
    """No ``pushFilters``: Spark lets pushed filters leak into other queries on the same data."""

    def __init__(self, plan: ReadPlan, schema: Any) -> None:
        if plan.options.max_rows_per_trigger is not None:
            raise ConfigurationError(
                "maxRowsPerTrigger is for streams.", next="Use endingOffsets to bound what a batch reads."
            )
        self._plan = plan
        self._schema = arrow_schema(schema)
        self._seconds = WAIT_SECONDS if plan.options.wait_seconds is None else plan.options.wait_seconds

    @across_spark()
    def partitions(self) -> list[InputPartition]:
        """Called once, on the driver: what is appended later is not seen."""
        ranges = patiently(lambda: planned_ranges(self._plan), self._seconds)
        return [RangePartition(each) for each in grouped(ranges)] or [RangePartition(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        return partition.read_by(RangeReader(self._plan, self._schema, self._seconds))


def planned_ranges(plan: ReadPlan) -> list[Range]:
    """What a plan reads if it starts now."""
    options = plan.options
    log = open_log(options.broker)
    kept = kept_offsets(log, list(plan.channels), options)
    start = bound_offsets(log, kept, options.starting_offsets, "earliest")
    end = bound_offsets(log, kept, options.ending_offsets or "latest", "latest")
    for channel, inner in kept.items():
        for partition, (_, high) in inner.items():
            end[channel][str(partition)] = min(end[channel][str(partition)], high)
    ranges = ranges_between(start, end)
    refuse_lost(ranges, kept, start, options)
    return split(ranges, options.min_partitions)
