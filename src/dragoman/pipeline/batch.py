"""Reading channels as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.plan import ReadPlan, open_log
from dragoman.pipeline.ranges import bound_offsets, kept_offsets, ranges_between, refuse_lost, split
from dragoman.pipeline.reading import Range, RangeReader
from dragoman.pipeline.types import arrow_schema
from dragoman.pipeline.waiting import patiently

WAIT_SECONDS = 30.0


class RangePartition(InputPartition):
    """One task: a range of one partition, ``None`` if there is nothing at all to read."""

    def __init__(self, range: Range | None) -> None:
        super().__init__(range)
        self.range = range


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

    def partitions(self) -> list[InputPartition]:
        """Called once, on the driver: what is appended later is not seen."""
        ranges = patiently(self._ranges, self._seconds)
        return [RangePartition(each) for each in ranges] or [RangePartition(None)]

    def _ranges(self) -> list[Range]:
        options = self._plan.options
        log = open_log(options.broker)
        kept = kept_offsets(log, [channel for channel, _ in self._plan.contracts], options)
        start = bound_offsets(log, kept, options.starting_offsets, "earliest")
        end = bound_offsets(log, kept, options.ending_offsets or "latest", "latest")
        for channel, inner in kept.items():
            for partition, (_, high) in inner.items():
                end[channel][str(partition)] = min(end[channel][str(partition)], high)
        ranges = ranges_between(start, end)
        refuse_lost(ranges, kept, options)
        return split(ranges, options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        if partition.range is None:
            return iter(())
        return RangeReader(self._plan, self._schema, self._seconds).batches(partition.range)
