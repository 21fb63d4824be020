"""Looking after a quarantine: what is in it, trying again, and giving up.

A message that passes the second time moves into the table. The move is written down before it begins, so that
one that was cut short is finished by the next try, and no message is in both places or in neither.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.pipeline.arrow import Decoder
from dragoman.pipeline.arrow.rejection import Reason
from dragoman.pipeline.layout import META_TYPE
from dragoman.pipeline.options import SourceOptions
from dragoman.pipeline.quarantine import SCHEMA
from dragoman.pipeline.running import Flow
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.state import State
from dragoman.pipeline.tables import DataFile, Table
from dragoman.pipeline.tables.writing import FileWriter, place_in
from dragoman.schema.naming import Naming

KEYS = ("channel", "partition", "offset")
_PENDING = "retry.json"


@dataclass(frozen=True, slots=True)
class Which:
    """Which messages of a quarantine are meant; all if nothing is said."""

    code: str = ""
    channel: str = ""
    partition: int | None = None
    offset: int | None = None
    schema_id: int | None = None

    def of(self, rows: Any) -> Any:
        for name, wanted in asdict(self).items():
            if wanted not in ("", None):
                rows = rows.filter(pc.equal(rows[name], wanted))
        return rows


@dataclass(frozen=True, slots=True)
class Retried:
    moved: int
    left: int


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
        passed = self._decode(rows.combine_chunks().to_batches()[0])
        moved = passed.num_rows
        if moved:
            self._begin(passed)
            self._finish()
        return Retried(moved, rows.num_rows - moved)

    def _decode(self, rows: Any) -> Any:
        contract = self.flow.contract or Naming.CHANNEL.for_value(self.flow.channel, "")
        known = schemas(self.options.registry)
        reader = known.reader(contract, self.flow.version)
        decoder = Decoder(reader.schema, known.text, self.options.mapping)
        decoded = decoder.decode(rows.column("frame"))
        count = rows.num_rows
        versions = [
            None if found is None else known.writer_version(contract, found)
            for found in decoded.schema_ids.to_pylist()
        ]
        about = {
            "schema_id": decoded.schema_ids,
            "contract_version": pa.repeat(pa.scalar(reader.version, pa.int32()), count),
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

    def _begin(self, passed: Any) -> None:
        """Write the rows into files, then down what is to be done with them."""
        layout = self.table.prepare(passed.schema, self.flow.partition_by)
        meta = passed.column("_meta")
        if self.flow.merge_by:
            passed = self._newest(passed)
            passed = passed.append_column("_deleted", pa.array([False] * passed.num_rows))
        place = place_in(self.table, layout, self.flow.partition_by, merging=bool(self.flow.merge_by))
        with FileWriter(place) as writer:
            writer.write(passed)
            files = writer.finish()
        keys = pa.table([meta.field(key).cast(SCHEMA.field(key).type) for key in KEYS], names=list(KEYS))
        pq.write_table(keys, self.state.folder / "retry.parquet")
        pending = {"application": f"retry-{uuid.uuid4().hex}", "files": [asdict(file) for file in files]}
        partial = self.state.folder / f"{_PENDING}.new"
        partial.write_text(json.dumps(pending))
        partial.replace(self._pending)

    def _finish(self) -> None:
        """Do what is written down: into the table, out of the quarantine. Both may be done again."""
        if not self._pending.exists():
            return
        pending = json.loads(self._pending.read_text())
        application = pending["application"]
        files = [
            DataFile(file["path"], file["rows"], file["size"], tuple((n, v) for n, v in file["partition"]))
            for file in pending["files"]
        ]
        if self.table.last_batch(application) < 0:
            if self.flow.merge_by and files:
                self.table.upsert(files, self._merge_columns(), application, 0)
            else:
                self.table.append(files, application, 0)
        self.quarantine.remove(pq.read_table(self.state.folder / "retry.parquet"), KEYS)
        self._pending.unlink()

    def _newest(self, passed: Any) -> Any:
        """In a table merged by key, a late message does not replace one that came after it."""
        keys = self._merge_columns()
        if "_key" in keys:
            passed = passed.append_column("_key", passed.column("_meta").field("key"))
        there = {
            tuple(row[key] for key in keys): _place(row["_meta"])
            for row in self.table.read([*keys, "_meta"]).to_pylist()
        }
        keep = [
            there.get(tuple(row[key] for key in keys), (-1, -1)) <= _place(row["_meta"])
            for row in passed.to_pylist()
        ]
        return passed.filter(pa.array(keep, pa.bool_()))

    def _merge_columns(self) -> tuple[str, ...]:
        return tuple("_key" if key == "key" else key for key in self.flow.merge_by)

    @property
    def _pending(self) -> Path:
        return self.state.folder / _PENDING


def _place(meta: dict[str, Any]) -> tuple[int, int]:
    return meta["partition"], meta["offset"]
