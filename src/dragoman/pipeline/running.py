"""Channels kept in step with tables: one streaming query for each flow, exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError, Conflict
from dragoman.pipeline.events import Progress, read_events
from dragoman.pipeline.installing import install
from dragoman.pipeline.quarantine import SCHEMA as QUARANTINE_SCHEMA
from dragoman.pipeline.sink import FORMAT, SinkPlan, TableSink
from dragoman.pipeline.state import State
from dragoman.pipeline.tables import Table, open_table
from dragoman.pipeline.tables.writing import place_in
from dragoman.pipeline.types import arrow_schema

STATE_FOLDER = "_dragoman"
MESSAGE_KEY = "key"
"""In ``merge_by``: the message's key instead of a column."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One or more channels of one contract, and the table they go to.

    ``merge_by`` names columns, or ``key`` for the message's key: the table then holds the latest message for
    each. ``table`` is by default the channel's name in the letters that table names may have.
    """

    channel: str
    table: str = ""
    contract: str = ""
    version: str = "latest"
    merge_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    starting_offsets: str = "earliest"
    max_rows_per_trigger: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Further options of the source, as they are."""

    @property
    def table_name(self) -> str:
        return self.table or re.sub(r"\W+", "_", self.channel).strip("_").lower()


@dataclass(frozen=True)
class Pipeline:
    """``with Pipeline(...) as pipeline: pipeline.run(once=True)``. ``to`` is a folder that all nodes see."""

    spark: Any
    flows: Sequence[Flow]
    to: str
    broker: str = field(default_factory=default_broker)
    registry: str = field(default_factory=default_registry)
    table_format: str = "delta"
    name: str = "pipeline"
    checkpoint: str = ""
    _held: ExitStack = field(default_factory=ExitStack, repr=False)

    def __post_init__(self) -> None:
        names = [flow.table_name for flow in self.flows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names or twice:
            raise ConfigurationError(
                f"Two flows write to {', '.join(twice)}." if twice else "A pipeline needs a channel.",
                next="Give each flow a table of its own." if twice else "Name one with --channel.",
            )

    def __enter__(self) -> Pipeline:
        """Become the only driver of these flows. Raises ``Conflict`` if there is another."""
        with ExitStack() as stack:
            for flow in self.flows:
                stack.enter_context(self.state(flow).held())
            self._held.push(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        for query in self._queries():
            query.stop()
        self._held.close()

    @staticmethod
    def flows_below(to: str, checkpoint: str = "") -> list[tuple[State, Flow, str]]:
        """The flows that have written below a folder, each with its state and table format."""
        base = Path(checkpoint) if checkpoint else Path(to, STATE_FOLDER)
        found: list[tuple[State, Flow, str]] = []
        for settings in sorted(base.absolute().glob("*/flow.json")):
            state = State(settings.parent)
            stored = state.remembered()
            table_format = stored.pop("format")
            lists = {name: tuple(stored[name]) for name in ("merge_by", "partition_by")}
            options = tuple((name, value) for name, value in stored.pop("options"))
            found.append((state, Flow(**{**stored, **lists}, options=options), table_format))
        return found

    def run(self, *, once: bool = False, watch: Callable[[Progress], None] | None = None) -> None:
        """Start every flow and wait: with ``once`` until all that is there now is in the tables."""
        queries = [self.start(flow, once=once) for flow in self.flows]
        while any(query.isActive for query in queries):
            queries[0].awaitTermination(1) if len(queries) == 1 else self._any(queries)
            if watch is not None:
                for flow, query in zip(self.flows, queries, strict=True):
                    watch(self.progress(flow, query))
        for query in queries:
            query.awaitTermination()
        if watch is not None:
            for flow, query in zip(self.flows, queries, strict=True):
                watch(self.progress(flow, query))

    def start(self, flow: Flow, *, once: bool = False) -> Any:
        """Start one flow's query and give it back."""
        install(self.spark)
        self.spark.dataSource.register(TableSink)
        frame = self._source(flow)
        plan = self._plan(flow, frame)
        self.state(flow).remember({**asdict(flow), "table": flow.table_name, "format": self.table_format})
        writer = (
            frame.writeStream.format(FORMAT)
            .queryName(self.application(flow))
            .option("plan", plan.pack())
            .option("checkpointLocation", str(self.state(flow).checkpoint))
        )
        return (writer.trigger(availableNow=True) if once else writer).start()

    def application(self, flow: Flow) -> str:
        return f"{self.name}-{flow.table_name}"

    def state(self, flow: Flow) -> State:
        base = Path(self.checkpoint) if self.checkpoint else Path(self.to, STATE_FOLDER)
        return State(base.absolute() / self.application(flow))

    def table(self, flow: Flow) -> Table:
        return open_table(self.table_format, self.to, flow.table_name)

    def quarantine(self, flow: Flow) -> Table:
        return open_table(self.table_format, self.to, f"{flow.table_name}_quarantine")

    def progress(self, flow: Flow, query: Any) -> Progress:
        return read_events(self.state(flow).events, self.application(flow), query)

    def _source(self, flow: Flow) -> Any:
        options = {
            "broker": self.broker,
            "registry": self.registry,
            "channel": flow.channel,
            "version": flow.version,
            "startingOffsets": flow.starting_offsets,
            "mode": "quarantine",
            "includeMeta": "true",
            **dict(flow.options),
        }
        if flow.contract:
            options["contract"] = flow.contract
        if flow.max_rows_per_trigger:
            options["maxRowsPerTrigger"] = str(flow.max_rows_per_trigger)
        frame = self.spark.readStream.format("dragoman").options(**options).load()
        if MESSAGE_KEY in flow.merge_by and MESSAGE_KEY not in frame.columns:
            frame = frame.withColumn("_key", frame["_meta"]["key"])
        return frame

    def _plan(self, flow: Flow, frame: Any) -> SinkPlan:
        table, quarantine = self.table(flow), self.quarantine(flow)
        columns = [name for name in frame.columns if name not in ("_error", "_frame")]
        merge_by = tuple(
            "_key" if key == MESSAGE_KEY and key not in columns else key for key in flow.merge_by
        )
        _require(columns, (*merge_by, *flow.partition_by), flow)
        layout = table.prepare(arrow_schema(frame.select(*columns).schema), flow.partition_by)
        kept = quarantine.prepare(QUARANTINE_SCHEMA, ())
        self._refuse_lost_checkpoint(flow, table)
        return SinkPlan(
            self.application(flow),
            self.table_format,
            self.to,
            flow.table_name,
            quarantine.name,
            str(self.state(flow).folder),
            place_in(table, layout, flow.partition_by, merging=bool(merge_by)),
            place_in(quarantine, kept),
            merge_by,
        )

    def _refuse_lost_checkpoint(self, flow: Flow, table: Table) -> None:
        """A new checkpoint counts batches from 0 again, and a table that knows them would skip them all."""
        if not self.state(flow).started() and table.last_batch(self.application(flow)) >= 0:
            raise Conflict(
                "The table has batches of this pipeline, but its checkpoint is gone.",
                code="pipeline.checkpoint",
                next="Restore the checkpoint, or give the pipeline another name and start where it ended.",
                table=flow.table_name,
                checkpoint=self.state(flow).checkpoint,
            )

    def _queries(self) -> Iterator[Any]:
        names = {self.application(flow) for flow in self.flows}
        yield from (query for query in self.spark.streams.active if query.name in names)

    def _any(self, queries: list[Any]) -> None:
        next(query for query in queries if query.isActive).awaitTermination(1)


def _require(columns: Sequence[str], wanted: Sequence[str], flow: Flow) -> None:
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ConfigurationError(
            f"The contract has no column {', '.join(missing)}.",
            next=f"Columns: {', '.join(name for name in columns if not name.startswith('_'))}.",
            channel=flow.channel,
        )
