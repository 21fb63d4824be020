"""Plain Parquet: a folder of files that any reader may read at any time.

Files are staged out of sight and moved in under a name made of application, batch and number. Moving is
repeatable, so a batch that is tried again ends with the same files. Readers may see a batch half moved in;
a table format with a log (Delta, Iceberg) does not have that limit, nor that of never replacing rows by key.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dragoman.core.errors import Unsupported
from dragoman.pipeline.tables.evolution import evolved
from dragoman.pipeline.tables.matching import without
from dragoman.pipeline.tables.table import STAGING, DataFile, Layout

_STATE = "_dragoman"


class ParquetTable:
    keeps_partition_columns = False
    replaces_rows = False
    data_folder = STAGING

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = str(root / name)
        self._state = root / name / _STATE

    def exists(self) -> bool:
        return self._schema_file.exists()

    def prepare(self, schema: Any, partition_by: Sequence[str]) -> Layout:
        self._state.mkdir(parents=True, exist_ok=True)
        layout = Layout(pa.schema([pa.field(field.name, field.type) for field in schema]))
        if self.exists():
            layout = evolved(pq.read_schema(self._schema_file).remove_metadata(), layout.schema)
        partial = self._schema_file.with_suffix(".new")
        pq.write_metadata(layout.schema, partial)
        partial.replace(self._schema_file)
        return layout

    def last_batch(self, application: str) -> int:
        file = self._state / f"{application}.batch"
        return int(file.read_text()) if file.exists() else -1

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None:
        if self.last_batch(application) >= batch:
            return
        for number, file in enumerate(files):
            staged = Path(self.folder) / file.path
            folder = Path(self.folder, *(_hive(name, value) for name, value in file.partition))
            folder.mkdir(parents=True, exist_ok=True)
            if staged.exists():
                staged.replace(folder / f"{application}-{batch:09}-{number:04}.parquet")
        partial = self._state / f"{application}.batch.new"
        partial.write_text(str(batch))
        partial.replace(self._state / f"{application}.batch")

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        raise Unsupported(
            "A plain Parquet table cannot replace rows.", next="Use --table-format delta or iceberg."
        )

    def remove(self, rows: Any, keys: Sequence[str]) -> None:
        """File by file: each is replaced by one without the rows, so that it may be done again."""
        for file in [Path(self.folder) / name for name in self.files()]:
            content = pq.read_table(file, partitioning=None)
            kept = without(content, rows, keys)
            if kept.num_rows < content.num_rows:
                staged = Path(self.folder, STAGING, f"{uuid.uuid4().hex}.parquet")
                staged.parent.mkdir(exist_ok=True)
                pq.write_table(kept, staged, compression="zstd")
                staged.replace(file)

    def forget_history(self, older_than: float) -> None:
        """There is none."""

    def read(self, columns: Sequence[str] | None = None) -> Any:
        schema = pq.read_schema(self._schema_file).remove_metadata()
        source = [str(Path(self.folder) / file) for file in self.files()]
        if not source:
            return schema.empty_table().select(list(columns) if columns is not None else schema.names)
        dataset = ds.dataset(
            source, schema=schema, format="parquet", partitioning="hive", partition_base_dir=self.folder
        )
        return dataset.to_table(columns=list(columns) if columns is not None else None)

    def count(self) -> int:
        return sum(pq.read_metadata(Path(self.folder) / file).num_rows for file in self.files())

    def files(self) -> Sequence[str]:
        found: list[str] = []
        for folder, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith("_")]
            found += [
                str(Path(folder, name).relative_to(self.folder))
                for name in names
                if name.endswith(".parquet") and not name.startswith("_")
            ]
        return sorted(found)

    def compact(self) -> int:
        raise Unsupported(
            "Files of a plain Parquet table cannot be joined while others read them.",
            next="Use --table-format delta or iceberg.",
        )

    @property
    def _schema_file(self) -> Path:
        return self._state / "schema.parquet"


def _hive(name: str, value: str | None) -> str:
    """The folder of one partition, as Hive and all who followed it name them."""
    return f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else quote(value, safe='')}"
