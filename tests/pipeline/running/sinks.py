"""The sink driven by hand, without Spark: what workers write, and what the driver commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.pipeline.source.channels import Place

from dragoman.pipeline.quarantine import SCHEMA
from dragoman.pipeline.running import Flow, Pipeline, merge_columns
from dragoman.pipeline.sink import SinkPlan, TableWriter, Written
from dragoman.pipeline.source import DragomanSource
from dragoman.pipeline.tables.writing import place_in
from dragoman.pipeline.types import arrow_schema


class Sink:
    """One flow of a pipeline whose batches are made by calls."""

    def __init__(self, place: Place, flow: Flow, table_format: str = "delta") -> None:
        self.place = place
        self.flow = flow
        self.pipeline = Pipeline(
            None, [flow], str(place.folder / "tables"), place.broker, place.registry, table_format
        )
        self.table, self.quarantine = self.pipeline.table(flow), self.pipeline.quarantine(flow)
        self.state = self.pipeline.state(flow)
        source = DragomanSource(place.options(flow.channel, **dict(flow.options)))
        schema = source.schema()
        self._reader = source.streamReader(schema)
        columns = [field for field in arrow_schema(schema) if field.name not in ("_error", "_frame")]
        self._keyed = "_key" in merge_columns(flow, [field.name for field in columns])
        if self._keyed:
            columns.append(pa.field("_key", pa.binary()))
        self.writer = TableWriter(self._plan(columns, table_format))

    def _plan(self, columns: list[Any], table_format: str) -> SinkPlan:
        layout = self.table.prepare(pa.schema(columns), self.flow.partition_by)
        return SinkPlan(
            self.pipeline.application(self.flow),
            table_format,
            self.pipeline.to,
            self.flow.table_name,
            self.quarantine.name,
            str(self.state.folder),
            str(self.state.home),
            place_in(self.table, layout, self.flow.partition_by, merging=bool(self.flow.merge_by)),
            place_in(self.quarantine, self.quarantine.prepare(SCHEMA, ())),
            merge_columns(self.flow, [field.name for field in columns]),
        )

    def write(self, since: int = 0) -> Written:
        """What a worker does with all messages that are there now, in the first partition after so many."""
        start = self._reader.initialOffset()
        if since:
            start[self.flow.channel]["0"] = since
        end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        parts = self._reader.partitions(start, end)
        return self.writer.write(self._with_key(batch) for part in parts for batch in self._reader.read(part))

    def _with_key(self, batch: Any) -> Any:
        return batch.append_column("_key", batch.column("_meta").field("key")) if self._keyed else batch

    def run(self, number: int = 0, since: int = 0) -> None:
        self.writer.commit([self.write(since)], number)

    def ids(self) -> list[int]:
        return sorted(self.table.read(["id"])["id"].to_pylist())
