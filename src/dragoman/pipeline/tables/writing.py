"""Data files written by Spark's workers, one batch of rows after the other, in bounded memory."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
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
OPEN_AT_ONCE = 64
"""Files that a worker has open: with more values of the partition than that, they take turns."""
HELD_BYTES = 64 << 20
"""Rows for a partitioned table are held until they are so many, and then written value by value."""
MOST_FILES = 10_000
"""Files that a worker writes for one batch."""


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
        () if merging else partition_by,
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


class _File:
    """A file that is being written."""

    def __init__(self, place: Place, schema: Any, values: Values) -> None:
        self._folder = place.folder
        self._values = values
        self._path = Path(place.folder, place.subfolder, f"{uuid.uuid4().hex}.parquet")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")

    def write(self, rows: Any) -> None:
        self._writer.write_batch(rows)

    def close(self) -> None:
        self._writer.close()

    def finish(self) -> DataFile:
        self._writer.close()
        rows, size = pq.read_metadata(self._path).num_rows, self._path.stat().st_size
        return DataFile(str(self._path.relative_to(self._folder)), rows, size, self._values)


class FileWriter:
    """Writes rows into new files below a table's folder, each with one value of the partition.

    Rows are sorted by that value before they are written, so that few files are open however many values
    there are. Raises ``ConfigurationError`` for a partition that would scatter a batch over too many files.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._schema = pa.ipc.read_schema(pa.py_buffer(place.schema))
        left_out = () if place.keep_partition else place.partition_by
        self._file_schema = pa.schema([field for field in self._schema if field.name not in left_out])
        self._held: list[Any] = []
        self._open: OrderedDict[Values, _File] = OrderedDict()
        self._done: list[DataFile] = []
        self.rows = 0

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._open.values():
            file.close()

    def write(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        renamed = dict(self._place.renamed)
        if renamed:
            batch = batch.rename_columns([renamed.get(name, name) for name in batch.schema.names])
        fitted = fit(batch, self._schema)
        if not self._place.partition_by:
            self._file(()).write(fitted)
            return
        self._held.append(fitted)
        if sum(each.nbytes for each in self._held) >= HELD_BYTES:
            self._write_held()

    def finish(self) -> tuple[DataFile, ...]:
        """Close the files and say what was written."""
        self._write_held()
        while self._open:
            self._finish_oldest()
        return tuple(self._done)

    def _write_held(self) -> None:
        if not self._held:
            return
        together = pa.Table.from_batches(self._held, self._schema).combine_chunks().to_batches()
        self._held.clear()
        for batch in together:
            for values, rows in by_value(batch, self._place.partition_by):
                self._file(values).write(rows.select(self._file_schema.names))

    def _file(self, values: Values) -> _File:
        if values in self._open:
            self._open.move_to_end(values)
            return self._open[values]
        if len(self._open) >= OPEN_AT_ONCE:
            self._finish_oldest()
        if len(self._done) + len(self._open) >= MOST_FILES:
            raise _too_many(self._place.partition_by)
        self._open[values] = _File(self._place, self._file_schema, values)
        return self._open[values]

    def _finish_oldest(self) -> None:
        _, file = self._open.popitem(last=False)
        self._done.append(file.finish())


def by_value(batch: Any, columns: Sequence[str]) -> Iterator[tuple[Values, Any]]:
    """The rows of each combination of values, in the order they had."""
    codes = [
        pc.dictionary_encode(batch.column(name), null_encoding="encode").indices.to_numpy()
        for name in columns
    ]
    order = np.lexsort(codes)
    ordered = batch.take(pa.array(order))
    changes: Any = np.zeros(len(order), dtype=bool)
    for code in codes:
        changes[1:] |= np.diff(code[order]) != 0
    starts = [0, *np.flatnonzero(changes).tolist(), len(order)]
    for start, end in pairwise(starts):
        first = [(name, ordered.column(name)[start].as_py()) for name in columns]
        values = tuple((name, None if value is None else str(value)) for name, value in first)
        yield values, ordered.slice(start, end - start)


def _too_many(partition_by: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{', '.join(partition_by)} would scatter one batch over more than {MOST_FILES} files.",
        code="pipeline.partitions",
        next="Partition a new table by a column with few values, such as a day; or go on in batches of "
        f"{MOST_FILES} messages at most, with max_rows_per_trigger.",
    )
