"""The table port: files are written anywhere, and become part of a table in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

STAGING = "_staging"
"""Folders that begin with an underscore are passed over by every reader of tables."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that is written but not yet part of a table. ``path`` is relative to the table."""

    path: str
    rows: int
    size: int
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The schema that data files must have, and which columns have another name in it."""

    schema: Any
    renamed: tuple[tuple[str, str], ...] = ()


class Table(Protocol):
    """One table. A commit is atomic, and done once for each (application, batch) however often it is tried.

    Nothing here deletes a data file.
    """

    name: str
    folder: str
    """Data files are written below it, in ``data_folder``."""
    data_folder: str
    keeps_partition_columns: bool
    """Whether data files hold the columns that the table is partitioned by."""
    replaces_rows: bool
    """Whether ``upsert`` and ``compact`` work."""

    def exists(self) -> bool: ...

    def prepare(self, schema: Any, partition_by: Sequence[str]) -> Layout:
        """Create the table, or add what the Arrow ``schema`` has and the table lacks, without rewriting.

        Columns that the contract dropped stay, and are null in new rows.
        """

    def last_batch(self, application: str) -> int:
        """The last batch of this application that was committed, -1 if none was."""

    def append(self, files: Sequence[DataFile], application: str, batch: int) -> None: ...

    def upsert(self, files: Sequence[DataFile], keys: Sequence[str], application: str, batch: int) -> None:
        """Rows of the files replace rows with the same keys; a row with ``_deleted`` removes them.

        Of several rows with the same keys the last one counts. Raises ``Unsupported``.
        """

    def remove(self, rows: Any, keys: Sequence[str]) -> None:
        """Delete the rows whose key columns equal those of the Arrow table ``rows``."""

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """The table as an Arrow table."""

    def count(self) -> int: ...

    def files(self) -> Sequence[str]:
        """The data files that belong to the table now or in its kept history, relative to ``folder``."""

    def forget_history(self, older_than: float) -> None:
        """Give up versions of the table that are older than so many seconds; never the current one."""

    def compact(self) -> int:
        """Join small files into larger ones; how many were joined."""
