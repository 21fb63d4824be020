"""Looking after a quarantine: what is in it, trying again, and giving up.

A message that passes the second time moves into the table. The move is written down before it begins, so that
one that was cut short is finished by the next try, and no message is in both places or in neither.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.pipeline.arrow import Decoder
from dragoman.pipeline.arrow.rejection import Reason
from dragoman.pipeline.deleted import KEY, newest, note
from dragoman.pipeline.layout import META_TYPE
from dragoman.pipeline.options import SourceOptions
from dragoman.pipeline.quarantine import SCHEMA
from dragoman.pipeline.running import Flow, Pipeline, merge_columns
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.state import Pending, State
from dragoman.pipeline.tables import Table
from dragoman.pipeline.tables.writing import FileWriter, place_in, refuse_moved
from dragoman.schema.naming import Naming

KEYS = ("channel", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Which:
    """Which messages of a quarantine are meant; all if nothing is said."""

    code: str = ""
    channel: str = ""
    partition: int | None = None
    offset: int | None = None
    schema_id: int | None = None
    pipeline: str = ""

    def of(self, rows: Any) -> Any:
        for name, wanted in asdict(self).items():
            if wanted not in ("", None):
                rows = rows.filter(pc.equal(rows[name], wanted))
        return rows


@dataclass(frozen=True, slots=True)
class Retried:
    """``outdated`` are those that passed and are gone, since something later was known of their key."""

    moved: int
    left: int
    outdated: int = 0


def entries(quarantine: Table, which: Which) -> Any:
    """The messages as an Arrow table, in the order of their places."""
    rows = which.of(quarantine.read())
    return rows.sort_by([(key, "ascending") for key in KEYS])


def discard(quarantine: Table, which: Which) -> int:
    """Remove them for good; how many they were."""
    rows = entries(quarantine, which)
    if rows.num_rows:
        quarantine.remove(rows.select(list(KEYS)), KEYS)
    return int(rows.num_rows)


@dataclass(frozen=True)
class Retry:
    """Messages decoded once more: a schema may have been registered since, or a reader mended."""

    flow: Flow
    table: Table
    quarantine: Table
    state: State
    options: SourceOptions

    def run(self, which: Which) -> Retried:
        self._finish()
        rows = entries(self.quarantine, which)
        if which.code != Reason.EXPIRED:
            rows = rows.filter(pc.not_equal(rows["code"], str(Reason.EXPIRED)))
        if not rows.num_rows:
            return Retried(0, 0)
        schemas(self.options.registry).forget_unknown()
        passed = self._decode(rows.combine_chunks().to_batches()[0])
        moved = 0
        if passed.num_rows:
            moved = self._begin(passed)
            self._finish()
        return Retried(moved, rows.num_rows - passed.num_rows, passed.num_rows - moved)

    def _decode(self, rows: Any) -> Any:
        """The rows that pass, of all channels: each is read as its own channel's contract."""
        channels = rows.column("channel")
        parts = [
            self._decode_channel(rows.filter(pc.equal(channels, channel)), channel)
            for channel in sorted(channels.unique().to_pylist())
        ]
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0] if len(parts) > 1 else parts[0]

    def _decode_channel(self, rows: Any, channel: str) -> Any:
        contract = self.flow.contract or Naming.CHANNEL.for_value(channel, "")
        known = schemas(self.options.registry)
        reader = None if self.flow.version == "writer" else known.reader(contract, self.flow.version)
        decoder = Decoder(reader.schema if reader else None, known.text, self.options.mapping)
        decoded = decoder.decode(rows.column("frame"))
        count = rows.num_rows
        versions = [
            None if found is None else known.writer_version(contract, found)
            for found in decoded.schema_ids.to_pylist()
        ]
        about = {
            "schema_id": decoded.schema_ids,
            "contract_version": pa.repeat(pa.scalar(reader.version if reader else None, pa.int32()), count),
            "writer_version": pa.array(versions, pa.int32()),
        }
        meta = pa.StructArray.from_arrays(
            [
                (about[field.name] if field.name in about else rows.column(field.name)).cast(field.type)
                for field in META_TYPE
            ],
            fields=list(META_TYPE),
        )
        batch = pa.record_batch(
            [*decoded.columns(), meta], names=[*(each.name for each in decoded.values.type), "_meta"]
        )
        return batch.filter(decoded.errors().is_null())

    def _begin(self, passed: Any) -> int:
        """Write the rows into files, then down what is to be done with them; how many rows they are."""
        meta = passed.column("_meta")
        merge_by = merge_columns(self.flow, passed.schema.names)
        if KEY in merge_by:
            passed = passed.append_column(KEY, meta.field("key"))
        layout = self.table.prepare(passed.schema, self.flow.partition_by)
        refuse_moved(self.table, layout, merge_by)
        if merge_by:
            passed = passed.append_column("_deleted", meta.field("schema_id").is_null())
            passed = newest(passed, self.table, merge_by, self._states())
        if KEY in merge_by:
            note(self.state, self.quarantine, passed)
        place = place_in(self.table, layout, self.flow.partition_by, merging=bool(merge_by))
        with FileWriter(place) as writer:
            writer.write(passed)
            files = writer.finish()
        keys = pa.table([meta.field(key).cast(SCHEMA.field(key).type) for key in KEYS], names=list(KEYS))
        pq.write_table(keys, self.state.folder / "retry.parquet")
        self.state.set_pending(Pending(f"retry-{uuid.uuid4().hex}", files, merge_by))
        return int(passed.num_rows)

    def _states(self) -> list[State]:
        """Of all pipelines that write to the table: any of them may have removed a key."""
        below = Pipeline.flows_below(str(self.state.home.parent.parent))
        others = [state for state, flow, _ in below if flow.table_name == self.flow.table_name]
        return [self.state, *(state for state in others if state.home != self.state.home)]

    def _finish(self) -> None:
        """Do what is written down: into the table, out of the quarantine. Both may be done again."""
        pending = self.state.pending()
        if pending is None:
            return
        if self.table.last_batch(pending.application) < 0:
            if pending.merge_by and pending.files:
                self.table.upsert(pending.files, pending.merge_by, pending.application, 0)
            else:
                self.table.append(pending.files, pending.application, 0)
        self.quarantine.remove(pq.read_table(self.state.folder / "retry.parquet"), KEYS)
        self.state.set_pending(None)
