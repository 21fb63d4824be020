"""From a format's name and a folder to a table."""

from __future__ import annotations

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.folders import folder_name, local
from dragoman.pipeline.tables.table import Table

TABLE_FORMATS = ("delta", "iceberg", "parquet")


def open_table(table_format: str, root: str, name: str) -> Table:
    """The table ``name`` below the folder ``root``; it need not exist yet."""
    folder = local(root, "to")
    folder_name(name, "table")
    match table_format:
        case "delta":
            from dragoman.pipeline.tables.delta import DeltaTable

            return DeltaTable(folder, name)
        case "iceberg":
            from dragoman.pipeline.tables.iceberg import IcebergTable

            return IcebergTable(folder, name)
        case "parquet":
            from dragoman.pipeline.tables.parquet import ParquetTable

            return ParquetTable(folder, name)
    raise ConfigurationError(
        f"{table_format!r} is not a table format.", next=f"Use one of {', '.join(TABLE_FORMATS)}."
    )
