"""Data files written by Spark's workers, one batch of rows after the other, in bounded memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.core.errors import ConfigurationError, Conflict
from dragoman.pipeline.tables.fitting import fit
from dragoman.pipeline.tables.table import STAGING, DataFile, Layout, Table

_PARTITIONS = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""Types whose values are the same again once they were the name of a folder."""
Values = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how rows are written: all that travels to a worker. ``schema`` is Arrow's, as bytes."""

    folder: str
    subfolder: str
    schema: bytes
    renamed: tuple[tuple[str, str], ...] = ()
    partition_by: tuple[str, ...] = ()
    keep_partition: bool = True


def place_in(
    table: Table, layout: Layout, partition_by: tuple[str, ...] = (), *, merging: bool = False
) -> Place:
    """Where rows for a table are written; those that are to be merged are staged out of sight, whole.

    Raises ``Conflict`` if a column that the table is partitioned by has moved to another name.
    """
    refuse_moved(table, layout, partition_by)
    schema = layout.schema.append(pa.field("_deleted", pa.bool_())) if merging else layout.schema
    return Place(
        table.folder,
        STAGING if merging else table.data_folder,
        schema.serialize().to_pybytes(),
        layout.renamed,
        partition_by,
        table.keeps_partition_columns or merging,
    )


def refuse_unkept(schema: Any, partition_by: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` for columns that a table cannot hold, or not as a partition."""
    for field in schema:
        if _without_fields(field.type):
            raise ConfigurationError(
                f"The column {field.name} has a record without fields, which no table can hold.",
                next="Give the record a field.",
            )
        if field.name in partition_by and not any(test(field.type) for test in _PARTITIONS):
            raise ConfigurationError(
                f"A table cannot be partitioned by {field.name}, of type {field.type}.",
                next="Use a column of text, whole numbers, booleans, dates or timestamps.",
            )


def _without_fields(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_without_fields(each.type) for each in kind)
    if pa.types.is_map(kind):
        return _without_fields(kind.item_type)
    return pa.types.is_list(kind) and _without_fields(kind.value_type)


def refuse_moved(table: Table, layout: Layout, columns: Sequence[str]) -> None:
    """Raise ``Conflict`` if the table finds its rows by a column whose new values are in another one."""
    moved = [name for name, _ in layout.renamed if name in columns]
    if moved:
        raise Conflict(
            f"The contract gave {', '.join(moved)} another type, by which the table finds its rows.",
            code="pipeline.table",
            next="Go on with the version before, or start another table from the channel's history.",
            table=table.name,
        )


class FileWriter:
    """Writes rows into new files below a table's folder, one open file for each value of the partition."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._schema = pa.ipc.read_schema(pa.py_buffer(place.schema))
        left_out = () if place.keep_partition else place.partition_by
        self._file_schema = pa.schema([field for field in self._schema if field.name not in left_out])
        self._open: dict[Values, tuple[Any, Path]] = {}
        self.rows = 0

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer, _ in self._open.values():
            writer.close()

    def write(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        renamed = dict(self._place.renamed)
        if renamed:
            batch = batch.rename_columns([renamed.get(name, name) for name in batch.schema.names])
        fitted = fit(batch, self._schema)
        for values, rows in self._split(fitted):
            self._writer(values).write_batch(rows.select(self._file_schema.names))

    def finish(self) -> tuple[DataFile, ...]:
        """Close the files and say what was written."""
        written: list[DataFile] = []
        for values, (writer, path) in self._open.items():
            writer.close()
            rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
            written.append(DataFile(str(path.relative_to(self._place.folder)), rows, size, values))
        return tuple(written)

    def _split(self, batch: Any) -> Iterator[tuple[Values, Any]]:
        if not self._place.partition_by:
            yield (), batch
            return
        columns = batch.select(list(self._place.partition_by))
        combinations = pa.Table.from_batches([columns]).group_by(list(self._place.partition_by)).aggregate([])
        for row in combinations.to_pylist():
            mask: Any = None
            for name in self._place.partition_by:
                column = batch.column(name)
                same = column.is_null() if row[name] is None else pc.equal(column, row[name])
                mask = same if mask is None else pc.and_(mask, same)
            values = tuple((name, None if row[name] is None else str(row[name])) for name in row)
            yield values, batch.filter(mask.fill_null(False))

    def _writer(self, values: Values) -> Any:
        if values not in self._open:
            path = Path(self._place.folder, self._place.subfolder, f"{uuid.uuid4().hex}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(path, self._file_schema, compression="zstd")
            self._open[values] = (writer, path)
        return self._open[values][0]
