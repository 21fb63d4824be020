"""Iceberg tables through pyiceberg, with a catalog in SQLite beside the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import AlwaysFalse, And, EqualTo, In, IsNull, Or
from pyiceberg.io.pyarrow import schema_to_pyarrow

from dragoman.core.errors import BrokerUnavailable
from dragoman.pipeline.tables.evolution import evolved
from dragoman.pipeline.tables.latest import latest_rows
from dragoman.pipeline.tables.table import DataFile, Layout

NAMESPACE = "dragoman"
_TRIES = 10


class IcebergTable:
    """``catalog.db`` in the root folder knows all tables below it."""

    keeps_partition_columns = True
    data_folder = "data"

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = str(root / name)
        root.mkdir(parents=True, exist_ok=True)
        self._identifier = f"{NAMESPACE}.{name.replace('.', '_')}"
        self._catalog = SqlCatalog(
            "dragoman", uri=f"sqlite:///{root / 'catalog.db'}", warehouse=f"file://{root}"
        )

    def exists(self) -> bool:
        return bool(self._catalog.table_exists(self._identifier))

    def prepare(self, schema: Any, partition_by: Sequence[str]) -> Layout:
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
            schema=pa.schema([pa.field(field.name, field.type) for field in schema]),
            location=f"file://{self.folder}",
            properties={
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "20",
            },
        )
        if partition_by:
            with table.update_spec() as spec:
                for column in partition_by:
                    spec.add_identity(column)

    def last_batch(self, application: str) -> int:
        return int(self._open().properties.get(_property(application), "-1"))

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None:
        paths = [f"file://{self.folder}/{file.path}" for file in files]

        def commit(transaction: Any) -> None:
            if paths:
                transaction.add_files(paths, check_duplicate_files=False)

        self._commit(commit, application, batch)

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        rows = latest_rows(self.folder, files, keys)
        kept = rows.filter(pa.compute.invert(rows["_deleted"])).drop_columns(["_deleted"])

        def commit(transaction: Any) -> None:
            transaction.delete(_matching(rows, keys))
            if kept.num_rows:
                transaction.append(kept)

        self._commit(commit, application, batch)

    def remove(self, rows: Any, keys: Sequence[str]) -> None:
        self._open().delete(_matching(rows, keys))

    def read(self, columns: Sequence[str] | None = None) -> Any:
        scan = self._open().scan(selected_fields=tuple(columns) if columns is not None else ("*",))
        return scan.to_arrow()

    def count(self) -> int:
        return int(self._open().scan().count())

    def files(self) -> Sequence[str]:
        prefix = f"file://{self.folder}/"
        table = self._open()
        listed: set[str] = set()
        for snapshot in table.snapshots():
            paths = table.inspect.files(snapshot_id=snapshot.snapshot_id)["file_path"].to_pylist()
            listed.update(path.removeprefix(prefix) for path in paths)
        return sorted(listed)

    def compact(self) -> int:
        table = self._open()
        count = len(table.inspect.files())
        if count < 2:
            return 0
        table.overwrite(table.scan().to_arrow())
        return count

    def _commit(self, work: Callable[[Any], None], application: str, batch: int) -> None:
        """Data and batch number in one transaction; again from the start if somebody else was first."""
        for _ in range(_TRIES):
            table = self._open()
            try:
                with table.transaction() as transaction:
                    work(transaction)
                    transaction.set_properties({_property(application): str(batch)})
                return
            except CommitFailedException:
                if self.last_batch(application) >= batch:
                    return
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
    """pyiceberg speaks of large strings and lists; our files hold ordinary ones."""
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


def _property(application: str) -> str:
    return f"dragoman.batch.{application}"


def _matching(rows: Any, keys: Sequence[str]) -> Any:
    """A condition that holds for the rows with these keys."""
    if len(keys) == 1:
        (key,) = keys
        values = rows[key].unique().to_pylist()
        known = [value for value in values if value is not None]
        condition = In(key, known) if known else AlwaysFalse()
        return Or(condition, IsNull(key)) if len(known) < len(values) else condition
    condition = AlwaysFalse()
    for row in rows.select(list(keys)).to_pylist():
        terms = [IsNull(key) if row[key] is None else EqualTo(key, row[key]) for key in keys]
        condition = Or(condition, And(*terms))
    return condition
