"""Keys that were removed from a merged table while an older message of theirs waited in quarantine.

The table shows no trace of them, and a retry would bring them back. So the place of such a tombstone is kept,
as long as a message of its key is in quarantine: no more than that can ever be asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.pipeline.state import State
from dragoman.pipeline.tables import DataFile, Table

KEY = "_key"
"""The column of the message's key in a table that is merged by it. A tombstone tells nothing else."""
_COLUMNS = (KEY, "_deleted", "_meta")
Spot = tuple[int, int]
"""Partition and offset: by them the merge tells which message of a key is the last."""


def spot_of(meta: Mapping[str, Any]) -> Spot:
    return meta["partition"], meta["offset"]


def note_files(state: State, quarantine: Table, folder: str, files: Sequence[DataFile]) -> None:
    """Of files that are about to be merged. May be done again."""
    paths = [Path(folder, file.path) for file in files]
    rows = [pq.read_table(path, columns=list(_COLUMNS), partitioning=None) for path in paths]
    note(state, quarantine, pa.concat_tables(rows))


def note(state: State, quarantine: Table, rows: Any) -> None:
    """Keep the tombstones among rows that are about to be merged, if anybody may ask for them."""
    rows = rows.select(list(_COLUMNS)).filter(rows["_deleted"])
    if not rows.num_rows:
        return
    found = state.deleted()
    for row in rows.to_pylist():
        found[row[KEY]] = max(found.get(row[KEY], (-1, -1)), spot_of(row["_meta"]))
    waiting = set(quarantine.read(["key"])["key"].to_pylist()) - {None}
    state.set_deleted({key: spot for key, spot in found.items() if key in waiting})


def newest(rows: Any, table: Table, keys: Sequence[str], states: Sequence[State]) -> Any:
    """The rows whose key has nothing later, neither in the table nor removed from it."""
    last = {_key_of(row, keys): spot_of(row["_meta"]) for row in table.read([*keys, "_meta"]).to_pylist()}
    for state in states:
        for key, spot in state.deleted().items():
            # A tombstone has nulls in all columns but the key.
            full = tuple(key if name == KEY else None for name in keys)
            last[full] = max(last.get(full, (-1, -1)), spot)
    keep = [
        last.get(_key_of(row, keys), (-1, -1)) <= spot_of(row["_meta"])
        for row in rows.select([*keys, "_meta"]).to_pylist()
    ]
    return rows.filter(pa.array(keep, pa.bool_()))


def _key_of(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)
