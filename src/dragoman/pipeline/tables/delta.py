"""Delta tables through delta-rs: no JVM, commits with the application's transaction number."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from dragoman.pipeline.tables.evolution import evolved
from dragoman.pipeline.tables.latest import latest_rows
from dragoman.pipeline.tables.table import DataFile, Layout


class DeltaTable:
    """A folder with a ``_delta_log``.

    Delta cannot widen a column without rewriting, so integers are kept as 64 bits, floats as doubles and
    decimals with all the digits there are. It has no times of day and no durations: these are kept as text
    and as microseconds.
    """

    keeps_partition_columns = False
    replaces_rows = True
    data_folder = "data"

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = str(root / name)

    def exists(self) -> bool:
        return bool(deltalake.DeltaTable.is_deltatable(self.folder))

    def prepare(self, schema: Any, partition_by: Sequence[str]) -> Layout:
        wanted = pa.schema([pa.field(field.name, _wide(field.type)) for field in schema])
        if not self.exists():
            deltalake.DeltaTable.create(
                self.folder,
                schema=deltalake.Schema.from_arrow(wanted),
                mode="ignore",
                partition_by=list(partition_by),
                configuration={"delta.logRetentionDuration": "interval 7 days"},
            )
            return Layout(wanted)
        table = self._open()
        existing = _arrow(table)
        layout = evolved(existing, wanted)
        if not layout.schema.equals(existing):
            table.alter.add_columns(deltalake.Schema.from_arrow(layout.schema).fields)
        return layout

    def last_batch(self, application: str) -> int:
        return _last_batch(self._open(), application)

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None:
        table = self._open()
        if _last_batch(table, application) >= batch:
            return
        now = int(time.time() * 1000)
        actions = [
            AddAction(
                file.path, file.size, dict(file.partition), now, True, json.dumps({"numRecords": file.rows})
            )
            for file in files
        ]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=_numbered(application, batch),
        )

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        table = self._open()
        if _last_batch(table, application) >= batch:
            return
        rows = latest_rows(self.folder, files, keys)
        matching = " AND ".join(f"(target.`{key}` IS NOT DISTINCT FROM source.`{key}`)" for key in keys)
        (
            table.merge(
                rows,
                predicate=matching,
                source_alias="source",
                target_alias="target",
                commit_properties=_numbered(application, batch),
            )
            .when_matched_delete(predicate="source.`_deleted`")
            .when_matched_update(_assignments(rows))
            .when_not_matched_insert(_assignments(rows), predicate="NOT source.`_deleted`")
            .execute()
        )
        # A merge that changes nothing makes no commit, and so leaves the number as it was.
        self.append((), application, batch)

    def remove(self, rows: Any, keys: Sequence[str]) -> None:
        matching = " AND ".join(f"target.`{key}` = source.`{key}`" for key in keys)
        merge = self._open().merge(rows, predicate=matching, source_alias="source", target_alias="target")
        merge.when_matched_delete().execute()

    def read(self, columns: Sequence[str] | None = None) -> Any:
        table = self._open()
        if not _has_deletion_vectors(table):
            return table.to_pyarrow_table(columns=None if columns is None else list(columns))
        schema = _arrow(table)
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        return _queried(table, ", ".join(_quoted(name) for name in wanted.names)).cast(wanted)

    def count(self) -> int:
        table = self._open()
        if not _has_deletion_vectors(table):
            return int(table.count())
        return int(_queried(table, "count(*) AS n")["n"][0].as_py())

    def files(self) -> Sequence[str]:
        prefix = f"{self.folder}/"
        current = {uri.removeprefix("file://").removeprefix(prefix) for uri in self._open().file_uris()}
        return sorted(current | {unquote(path) for path in current} | set(self._logged()))

    def _logged(self) -> Iterator[str]:
        """What earlier versions had: they may be read as long as their log is kept."""
        for log in Path(self.folder, "_delta_log").glob("*.json"):
            with suppress(FileNotFoundError):
                for line in log.read_text().splitlines():
                    action = json.loads(line)
                    for kind in action.keys() & {"add", "remove"}:
                        yield unquote(action[kind]["path"])

    def forget_history(self, older_than: float) -> None:
        """Delta drops its log by itself, after the table's ``delta.logRetentionDuration``."""

    def compact(self) -> int:
        try:
            return int(self._open().optimize.compact()["numFilesRemoved"])
        except CommitFailedError:
            return 0  # Somebody else replaced some of the files: they stand until the next time.

    def _open(self) -> Any:
        return deltalake.DeltaTable(self.folder)


def _last_batch(table: Any, application: str) -> int:
    version = table.transaction_version(application)
    return -1 if version is None else int(version)


def _has_deletion_vectors(table: Any) -> bool:
    """Another writer, such as Spark, may mark rows as deleted in files that still have them."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def _queried(table: Any, what: str) -> Any:
    """By SQL, which knows deletion vectors. The reader for Arrow refuses them, the count ignores them."""
    query = f"SELECT {what} FROM rows"  # noqa: S608 -- columns of the table, quoted
    return pa.table(deltalake.QueryBuilder().register("rows", table).execute(query).read_all())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _numbered(application: str, batch: int) -> Any:
    return deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, batch)])


def _assignments(rows: Any) -> dict[str, str]:
    return {f"`{name}`": f"source.`{name}`" for name in rows.schema.names if name != "_deleted"}


def _arrow(table: Any) -> Any:
    return pa.schema(table.schema().to_arrow())


def _wide(kind: Any) -> Any:
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _wide(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_wide(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _wide(kind.item_type))
    return kind
