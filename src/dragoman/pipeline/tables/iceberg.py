"""Iceberg tables through pyiceberg, with a catalog in SQLite beside the data."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import AlwaysFalse, And, In, IsNull, Or
from pyiceberg.io.pyarrow import schema_to_pyarrow

from dragoman.core.errors import BrokerUnavailable
from dragoman.pipeline.tables.evolution import evolved
from dragoman.pipeline.tables.fitting import fit
from dragoman.pipeline.tables.latest import latest_rows
from dragoman.pipeline.tables.matching import without
from dragoman.pipeline.tables.table import DataFile, Layout

NAMESPACE = "dragoman"
JOINED_SIZE = 128 * 1024 * 1024
_TRIES = 10
_PATIENCE = 60
"""Seconds that a flow waits for others that change the catalog."""


class IcebergTable:
    """``catalog.db`` in the root folder knows all tables below it."""

    keeps_partition_columns = True
    replaces_rows = True
    data_folder = "data"

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = str(root / name)
        root.mkdir(parents=True, exist_ok=True)
        self._identifier = f"{NAMESPACE}.{name.replace('.', '_')}"
        catalog = f"sqlite:///{root / 'catalog.db'}?timeout={_PATIENCE}"
        self._catalog = SqlCatalog("dragoman", uri=catalog, warehouse=f"file://{root}")

    def exists(self) -> bool:
        return bool(self._catalog.table_exists(self._identifier))

    def prepare(self, schema: Any, partition_by: Sequence[str]) -> Layout:
        schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
        if not self.exists():
            self._create(schema, partition_by)
        table = self._open()
        existing = self._arrow(table)
        layout = evolved(existing, schema)
        if not layout.schema.equals(existing):
            with table.update_schema() as update:
                update.union_by_name(layout.schema)
        return Layout(self._arrow(self._open()), layout.renamed)

    def _create(self, schema: Any, partition_by: Sequence[str]) -> None:
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        table = self._catalog.create_table(
            self._identifier,
            schema=schema,
            location=f"file://{self.folder}",
            properties={
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "20",
                "commit.manifest-merge.enabled": "true",
            },
        )
        if partition_by:
            with table.update_spec() as spec:
                for column in partition_by:
                    spec.add_identity(column)

    def last_batch(self, application: str) -> int:
        return _last_batch(self._open(), application)

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None:
        paths = [f"file://{self.folder}/{file.path}" for file in files]

        def commit(_: Any, transaction: Any) -> None:
            if paths:
                transaction.add_files(paths, check_duplicate_files=False)

        self._commit(commit, application, batch)

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        rows = latest_rows(self.folder, files, keys)
        kept = rows.filter(pa.compute.invert(rows["_deleted"])).drop_columns(["_deleted"])

        def commit(table: Any, transaction: Any) -> None:
            _delete(table, transaction, rows, keys)
            if kept.num_rows:
                transaction.append(kept)

        self._commit(commit, application, batch)

    def remove(self, rows: Any, keys: Sequence[str]) -> None:
        table = self._open()
        with table.transaction() as transaction:
            _delete(table, transaction, rows, keys)

    def read(self, columns: Sequence[str] | None = None) -> Any:
        scan = self._open().scan(selected_fields=tuple(columns) if columns is not None else ("*",))
        return scan.to_arrow()

    def count(self) -> int:
        return int(self._open().scan().count())

    def files(self) -> Sequence[str]:
        prefix = f"file://{self.folder}/"
        paths = self._open().inspect.all_files()["file_path"].to_pylist()
        return sorted({path.removeprefix(prefix) for path in paths})

    def forget_history(self, older_than: float) -> None:
        limit = datetime.now(UTC) - timedelta(seconds=older_than)
        self._open().maintenance.expire_snapshots().older_than(limit).commit()

    def compact(self) -> int:
        groups: dict[str, list[Any]] = {}
        for task in self._open().scan().plan_files():
            if task.file.file_size_in_bytes < JOINED_SIZE // 2 and not task.delete_files:
                groups.setdefault(str(task.file.partition), []).append(task.file)
        joined = 0
        for files in [part for group in groups.values() for part in _portions(group)]:
            try:
                self._join(files)
            except CommitFailedException:
                break  # Somebody else was first: the files stand until the next time.
            joined += len(files)
        return joined

    def _join(self, files: Sequence[Any]) -> None:
        """Row group by row group, so that no more than one is in memory."""
        table = self._open()
        schema = self._arrow(table)
        path = Path(self.folder, self.data_folder, f"{uuid.uuid4().hex}.parquet")
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for file in files:
                with pq.ParquetFile(file.file_path.removeprefix("file://")) as content:
                    for batch in content.iter_batches():
                        writer.write_batch(fit(batch, schema))
        with table.transaction() as transaction:
            with transaction.update_snapshot().overwrite() as snapshot:
                for file in files:
                    snapshot.delete_data_file(file)
            transaction.add_files([f"file://{path}"], check_duplicate_files=False)

    def _commit(self, work: Callable[[Any, Any], None], application: str, batch: int) -> None:
        """Data and batch number in one transaction; again from the start if somebody else was first."""
        for _ in range(_TRIES):
            table = self._open()
            if _last_batch(table, application) >= batch:
                return
            try:
                with table.transaction() as transaction:
                    work(table, transaction)
                    transaction.set_properties({_property(application): str(batch)})
                return
            except CommitFailedException:
                continue
        raise BrokerUnavailable(
            f"The Iceberg table could not be committed to in {_TRIES} tries.",
            code="pipeline.commit",
            next="Other writers keep changing it: let them finish, then run again.",
            table=self.name,
        )

    def _open(self) -> Any:
        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            raise FileNotFoundError(self.folder) from error

    @staticmethod
    def _arrow(table: Any) -> Any:
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: Any) -> Any:
    """What our files hold. pyiceberg speaks of large strings and lists, and theirs are ordinary ones; Iceberg
    has times of day to the microsecond, no durations, and no type of nothing but null."""
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _last_batch(table: Any, application: str) -> int:
    return int(table.properties.get(_property(application), "-1"))


def _property(application: str) -> str:
    return f"dragoman.batch.{application}"


def _portions(files: Sequence[Any]) -> Iterator[list[Any]]:
    """Files to be joined into one, each time as many as make a large one."""
    portion: list[Any] = []
    for file in files:
        portion.append(file)
        if sum(each.file_size_in_bytes for each in portion) >= JOINED_SIZE:
            yield portion
            portion = []
    if len(portion) > 1:
        yield portion


def _delete(table: Any, transaction: Any, rows: Any, keys: Sequence[str]) -> None:
    """Delete the rows with these keys. With several columns, what only looks alike is put back.

    A condition on each column stays small for the many rows of a batch; one on each row does not.
    """
    condition = reduce(And, [_one_of(rows, key) for key in keys])
    alike = None
    if len(keys) > 1:
        alike = without(table.scan(row_filter=condition).to_arrow(), rows, keys)
    transaction.delete(condition)
    if alike is not None and alike.num_rows:
        transaction.append(alike)


def _one_of(rows: Any, key: str) -> Any:
    values = rows[key].unique().to_pylist()
    known = [value for value in values if value is not None]
    condition = In(key, known) if known else AlwaysFalse()
    return Or(condition, IsNull(key)) if len(known) < len(values) else condition
