"""Tables that streams are kept in: Delta, Iceberg and plain Parquet behind one port."""

from dragoman.pipeline.tables.opening import TABLE_FORMATS, open_table
from dragoman.pipeline.tables.table import DataFile, Table

__all__ = ["TABLE_FORMATS", "DataFile", "Table", "open_table"]
