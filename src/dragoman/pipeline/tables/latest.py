"""The last row of each key in some data files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.pipeline.tables.table import DataFile


def latest_rows(folder: str, files: Sequence[DataFile], keys: Sequence[str]) -> Any:
    """One row for each key: of one key all messages are in one partition, so its offset tells the last."""
    rows = pa.concat_tables([pq.read_table(Path(folder) / file.path, partitioning=None) for file in files])
    rows = rows.filter(_tell_something(rows, keys))
    order = pa.table(
        {
            "partition": pc.struct_field(rows["_meta"], "partition"),
            "offset": pc.struct_field(rows["_meta"], "offset"),
        }
    )
    sequence = pc.sort_indices(order, sort_keys=[("partition", "ascending"), ("offset", "ascending")])
    rows = rows.take(sequence)
    numbered = rows.select(list(keys)).append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(keys)).aggregate([("_row", "max")])["_row_max"]
    return rows.take(pc.sort_indices(last) if last.num_chunks == 0 else pc.take(last, pc.sort_indices(last)))


def _tell_something(rows: Any, keys: Sequence[str]) -> Any:
    """All but messages without payload that name no key, and so remove nothing."""
    named: Any = pc.invert(rows["_deleted"])
    for key in keys:
        named = pc.or_(named, pc.is_valid(rows[key]))
    return named
