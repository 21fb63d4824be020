"""Channels kept in step with tables: one streaming query for each flow, exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError, Conflict, Unsupported
from dragoman.pipeline.again import how_to_start
from dragoman.pipeline.beginning import begun
from dragoman.pipeline.deleted import KEY
from dragoman.pipeline.events import Progress, Totals, progress_of
from dragoman.pipeline.faults import spark_faults
from dragoman.pipeline.folders import STATE_FOLDER, folder_name, local
from dragoman.pipeline.installing import install
from dragoman.pipeline.options import without_credentials
from dragoman.pipeline.quarantine import SCHEMA as QUARANTINE_SCHEMA
from dragoman.pipeline.sink import FORMAT, SinkPlan, TableSink
from dragoman.pipeline.state import SETTINGS, State
from dragoman.pipeline.tables import Table, open_table
from dragoman.pipeline.tables.writing import place_in, refuse_moved, refuse_unkept
from dragoman.pipeline.types import arrow_schema

MESSAGE_KEY = "key"
"""In ``merge_by``: the message's key instead of a column."""
MERGED_AT_ONCE = 200_000
"""Messages in one batch of a merging flow that sets no limit: the driver holds them while it merges."""


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
    compact_every: int = 100
    """Small files are joined after so many batches; never for 0, and never in plain Parquet."""
    options: tuple[tuple[str, str], ...] = ()
    """Further options of the source, as they are."""

    @property
    def table_name(self) -> str:
        return self.table or re.sub(r"\W+", "_", self.channel).strip("_").lower()

    @property
    def quarantine_name(self) -> str:
        return f"{self.table_name}_quarantine"


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
    _held: list[ExitStack] = field(default_factory=list, repr=False)
    _totals: dict[str, Totals] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        local(self.to, "to")
        local(self.checkpoint, "checkpoint")
        folder_name(self.name, "name")
        for flow in self.flows:
            folder_name(flow.table_name, "table")
        names = [name for flow in self.flows for name in (flow.table_name, flow.quarantine_name)]
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
            self._held.append(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        with self._held.pop():
            for query in self._queries():
                query.stop()

    @staticmethod
    def flows_below(to: str) -> list[tuple[State, Flow, str]]:
        """The flows that have written below a folder, each with its state and table format.

        None has credentials: those are not kept, and what an older file has of them is not used.
        """
        found: list[tuple[State, Flow, str]] = []
        for settings in sorted((local(to, "to") / STATE_FOLDER).glob(f"*/{SETTINGS}")):
            state, stored = State.remembered(settings.parent)
            table_format = stored.pop("format")
            lists = {name: tuple(stored[name]) for name in ("merge_by", "partition_by")}
            options = without_credentials(stored.pop("options"))
            found.append((state, Flow(**{**stored, **lists}, options=options), table_format))
        return found

    def run(self, *, once: bool = False, watch: Callable[[Progress], None] | None = None) -> None:
        """Start every flow and wait: with ``once`` until all that is there now is in the tables.

        A flow that fails ends all of them. What Spark threw comes out as an error of ours.
        """
        queries = [self.start(flow, once=once) for flow in self.flows]
        with self._told_how_to_go_on(once), spark_faults():
            while active := [query for query in queries if query.isActive]:
                for query in queries:
                    if query not in active:
                        query.awaitTermination()
                active[0].awaitTermination(1)
                self._tell(queries, watch)
            for query in queries:
                query.awaitTermination()
        self._tell(queries, watch)

    @contextmanager
    def _told_how_to_go_on(self, once: bool) -> Iterator[None]:
        """A stream that stops for a newer version does not know how the pipeline is started."""
        try:
            yield
        except Conflict as error:
            if error.code == "pipeline.newer-version":
                error.next = (
                    f"Nothing of this batch was stored. To go on from here, {how_to_start(self, once)}"
                )
            raise

    def _tell(self, queries: Sequence[Any], watch: Callable[[Progress], None] | None) -> None:
        if watch is not None:
            for flow, query in zip(self.flows, queries, strict=True):
                watch(self.progress(flow, query))

    def start(self, flow: Flow, *, once: bool = False) -> Any:
        """Start one flow's query and give it back when it reads.

        Await the query itself: if Spark had given up an earlier try, ``awaitAnyTermination`` tells of that.
        """
        if not self._held:
            raise ConfigurationError(
                "Another driver could run this pipeline too.",
                next="Use it as: with Pipeline(...) as pipeline.",
            )
        with spark_faults():
            install(self.spark)
            self.spark.dataSource.register(TableSink)
            self._refuse_other_table(flow)
            frame = self._source(flow)
            plan = self._plan(flow, frame)
            self.state(flow).remember(self._settings(flow))
            writer = (
                frame.writeStream.format(FORMAT)
                .queryName(self.application(flow))
                .option("plan", plan.pack())
                .option("checkpointLocation", str(self.state(flow).checkpoint))
            )
            return begun((writer.trigger(availableNow=True) if once else writer).start)

    def _settings(self, flow: Flow) -> dict[str, Any]:
        kept = {"table": flow.table_name, "options": without_credentials(flow.options)}
        return {**asdict(flow), **kept, "format": self.table_format}

    def application(self, flow: Flow) -> str:
        return f"{self.name}-{flow.table_name}"

    def state(self, flow: Flow) -> State:
        home = local(self.to, "to") / STATE_FOLDER / self.application(flow)
        if not self.checkpoint:
            return State(home)
        return State(local(self.checkpoint, "checkpoint") / self.application(flow), home)

    def table(self, flow: Flow) -> Table:
        return open_table(self.table_format, self.to, flow.table_name)

    def quarantine(self, flow: Flow) -> Table:
        return open_table(self.table_format, self.to, flow.quarantine_name)

    def progress(self, flow: Flow, query: Any) -> Progress:
        name = self.application(flow)
        totals = self._totals.setdefault(name, Totals(self.state(flow).events))
        return progress_of(totals, name, query)

    def _source(self, flow: Flow) -> Any:
        rows = flow.max_rows_per_trigger or (MERGED_AT_ONCE if flow.merge_by else "")
        own = {
            "broker": self.broker,
            "registry": self.registry,
            "channel": flow.channel,
            "contract": flow.contract,
            "version": flow.version,
            "startingOffsets": flow.starting_offsets,
            "maxRowsPerTrigger": str(rows),
            "mode": "quarantine",
            "includeMeta": "true",
        }
        taken = {name for name, _ in flow.options if name.lower() in {each.lower() for each in own}}
        if taken:
            raise ConfigurationError(
                f"A pipeline sets {', '.join(sorted(taken))} by itself, from what it was told.",
                next="Leave it out of the options.",
            )
        options = {name: value for name, value in own.items() if value} | dict(flow.options)
        frame = self.spark.readStream.format("dragoman").options(**options).load()
        if MESSAGE_KEY in flow.merge_by and MESSAGE_KEY not in frame.columns:
            frame = frame.withColumn(KEY, frame["_meta"]["key"])
        return frame

    def _plan(self, flow: Flow, frame: Any) -> SinkPlan:
        table, quarantine = self.table(flow), self.quarantine(flow)
        if flow.merge_by and not table.replaces_rows:
            raise Unsupported(
                "A plain Parquet table cannot replace rows.", next="Use --table-format delta or iceberg."
            )
        columns = [name for name in frame.columns if name not in ("_error", "_frame")]
        merge_by = merge_columns(flow, columns)
        _require(columns, (*merge_by, *flow.partition_by), flow)
        schema = arrow_schema(frame.select(*columns).schema)
        refuse_unkept(schema, flow.partition_by)
        layout = table.prepare(schema, flow.partition_by)
        refuse_moved(table, layout, merge_by)
        kept = quarantine.prepare(QUARANTINE_SCHEMA, ())
        self._refuse_lost_checkpoint(flow, table, quarantine)
        return SinkPlan(
            self.application(flow),
            self.table_format,
            self.to,
            flow.table_name,
            quarantine.name,
            str(self.state(flow).folder),
            str(self.state(flow).home),
            place_in(table, layout, flow.partition_by, merging=bool(merge_by)),
            place_in(quarantine, kept),
            merge_by,
            flow.compact_every if table.replaces_rows else 0,
        )

    def _refuse_other_table(self, flow: Flow) -> None:
        """The format, the partitions and the way of keeping rows are a table's own, once and for all."""
        for _, other, table_format in self.flows_below(self.to):
            if other.table_name != flow.table_name:
                continue
            pairs = (
                ("table_format", table_format, self.table_format),
                ("merge_by", other.merge_by, flow.merge_by),
                ("partition_by", other.partition_by, flow.partition_by),
            )
            for name, kept, wanted in pairs:
                if kept != wanted:
                    raise Conflict(
                        f"The table was made with {name} {_shown(kept)}, not {_shown(wanted)}.",
                        code="pipeline.table",
                        next="Go on as before, or start another table from the channel's history.",
                        table=flow.table_name,
                    )

    def _refuse_lost_checkpoint(self, flow: Flow, table: Table, quarantine: Table) -> None:
        """A checkpoint that is older than the tables counts some batches again, and they would be skipped."""
        state, name = self.state(flow), self.application(flow)
        known = max(table.last_batch(name), quarantine.last_batch(name), state.last_decided())
        if state.last_begun() < known:
            raise Conflict(
                "The table has batches that the pipeline's checkpoint does not know: it is gone, or old.",
                code="pipeline.checkpoint",
                next="Restore the checkpoint, or give the pipeline another name and start where it ended.",
                table=flow.table_name,
                checkpoint=state.checkpoint,
            )

    def _queries(self) -> Iterator[Any]:
        names = {self.application(flow) for flow in self.flows}
        yield from (query for query in self.spark.streams.active if query.name in names)


def merge_columns(flow: Flow, columns: Sequence[str]) -> tuple[str, ...]:
    """The table's columns that tell rows apart; a contract's own field ``key`` goes before the message's."""
    return tuple(KEY if key == MESSAGE_KEY and key not in columns else key for key in flow.merge_by)


def _shown(setting: str | Sequence[str]) -> str:
    return setting if isinstance(setting, str) else ", ".join(setting) or "nothing"


def _require(columns: Sequence[str], wanted: Sequence[str], flow: Flow) -> None:
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ConfigurationError(
            f"The contract has no column {', '.join(missing)}.",
            next=f"Columns: {', '.join(name for name in columns if not name.startswith('_'))}.",
            channel=flow.channel,
        )
