"""Files that no table refers to: left by workers that died, or by batches that were tried twice."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.pipeline.state import State
from dragoman.pipeline.tables import Table
from dragoman.pipeline.tables.table import STAGING


def orphans(table: Table, states: Iterable[State], older_than: float) -> Iterator[Path]:
    """Data files that are in no commit and promised to none, and older than so many seconds.

    ``states`` are those of all who write to the table. The order matters while they run: a promise is kept
    before it is forgotten, so that a file found first is seen in the promises or in the table after them.
    """
    if not table.exists():
        return
    limit = time.time() - older_than
    found = [file for file in sorted(_data_files(Path(table.folder))) if _changed(file) < limit]
    promised = {path for state in states for path in state.promised()}
    known = promised.union(table.files())
    yield from (file for file in found if str(file.relative_to(table.folder)) not in known)


def _data_files(folder: Path) -> Iterator[Path]:
    """All Parquet files but those that a table keeps about itself."""
    for each, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith("_") or name == STAGING]
        yield from (Path(each, name) for name in names if name.endswith(".parquet") and name[0] != "_")


def _changed(file: Path) -> float:
    """When, in seconds; one that was moved into its table meanwhile is not old."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return math.inf


def vacuum(table: Table, states: Iterable[State], older_than: float, *, dry_run: bool = False) -> list[Path]:
    """Remove the orphans, and history that is older; which files they were."""
    if table.exists() and not dry_run:
        table.forget_history(older_than)
    found = list(orphans(table, states, older_than))
    if not dry_run:
        for file in found:
            file.unlink(missing_ok=True)
    return found
