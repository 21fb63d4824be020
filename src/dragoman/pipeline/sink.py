"""The stream sink: valid rows into the table, rejected ones into its quarantine, each batch exactly once."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from dragoman.core.errors import DragomanError
from dragoman.pipeline.commit import BatchCommit
from dragoman.pipeline.deleted import KEY, note_files
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.quarantine import quarantine_rows
from dragoman.pipeline.state import Decision, State
from dragoman.pipeline.tables import DataFile, open_table
from dragoman.pipeline.tables.writing import FileWriter, Place

FORMAT = "dragoman_table"
HISTORY_SECONDS = 3600.0
"""A table that lists its versions grows slow with them. Their files stay until they are vacuumed."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """All that the sink needs to know, made by the driver and sent along."""

    application: str
    table_format: str
    root: str
    table: str
    quarantine: str
    state: str
    home: str
    valid: Place
    rejected: Place
    merge_by: tuple[str, ...] = ()
    compact_every: int = 0

    def pack(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def unpack(packed: str) -> SinkPlan:
        plan = pickle.loads(base64.b64decode(packed))  # noqa: S301 -- made by this process's driver
        assert isinstance(plan, SinkPlan)
        return plan


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    read: int
    valid: tuple[DataFile, ...]
    quarantined: tuple[DataFile, ...]


class TableSink(DataSource):
    """Used by ``Pipeline``, which makes the plan and hands it over as an option."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> TableWriter:
        return TableWriter(SinkPlan.unpack(self.options["plan"]))


class TableWriter(DataSourceStreamArrowWriter):
    def __init__(self, plan: SinkPlan) -> None:
        self.plan = plan

    @across_spark()
    def write(self, iterator: Iterator[Any]) -> Written:
        """On a worker: rows into files that belong to nothing yet."""
        read = 0
        with FileWriter(self.plan.valid) as valid, FileWriter(self.plan.rejected) as rejected:
            for batch in iterator:
                read += batch.num_rows
                good, bad = self._split(batch)
                valid.write(good)
                rejected.write(quarantine_rows(bad, self.plan.application))
            return Written(read, valid.finish(), rejected.finish())

    def _split(self, batch: Any) -> tuple[Any, Any]:
        error = batch.column("_error")
        if self.plan.merge_by:
            batch = _with_tombstones(batch, error)
        if error.null_count == batch.num_rows:
            return batch, batch.slice(0, 0)
        return batch.filter(error.is_null()), batch.filter(error.is_valid())

    @across_spark()
    def commit(self, messages: list[Any], batchId: int) -> None:
        """On the driver: quarantine first, then the table, each once for this batch."""
        self._tables().run(_counted(batchId, [message for message in messages if message is not None]))
        if self.plan.compact_every and (batchId + 1) % self.plan.compact_every == 0:
            self._compact()

    def _compact(self) -> None:
        """Between two batches, when nobody else writes; cut short, it leaves the table as it was."""
        for name in (self.plan.quarantine, self.plan.table):
            table = open_table(self.plan.table_format, self.plan.root, name)
            table.compact()
            table.forget_history(HISTORY_SECONDS)

    def _tables(self) -> BatchCommit:
        plan = self.plan
        state = State(Path(plan.state), Path(plan.home))
        quarantine = open_table(plan.table_format, plan.root, plan.quarantine)
        table = open_table(plan.table_format, plan.root, plan.table)

        def note(files: Sequence[DataFile]) -> None:
            note_files(state, quarantine, table.folder, files)

        before_merge = note if KEY in plan.merge_by else None
        return BatchCommit(plan.application, state, quarantine, table, plan.merge_by, before_merge)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing is deleted: a commit may have failed half way. ``vacuum`` removes what is left over."""


def _counted(batch: int, written: list[Written]) -> Decision:
    """What the workers wrote, if no message is missing from it."""
    decision = Decision(
        batch,
        sum(message.read for message in written),
        tuple(file for message in written for file in message.valid),
        tuple(file for message in written for file in message.quarantined),
    )
    if decision.rows + decision.rejected != decision.read:
        raise DragomanError(
            f"{decision.read} messages were read, {decision.rows} are valid and {decision.rejected} "
            "quarantined: the counts must add up.",
            code="pipeline.count",
            next="Nothing was committed. Please report this with the event log.",
            batch=batch,
        )
    return decision


def _with_tombstones(batch: Any, error: Any) -> Any:
    """In a table merged by key, a message without payload removes its key."""
    unframed = batch.column("_meta").field("schema_id").is_null()
    return batch.append_column("_deleted", pc.and_(error.is_null(), unframed))
