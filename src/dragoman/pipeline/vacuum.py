"""Files that no table refers to: left by workers that died, or by batches that were tried twice."""

from __future__ import annotations

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
    limit = time.time() - older_than
    found = [
        file
        for subfolder in sorted({table.data_folder, STAGING})
        for file in sorted(Path(table.folder, subfolder).rglob("*.parquet"))
        if file.stat().st_mtime < limit
    ]
    promised = {path for state in states for path in state.promised()}
    known = promised.union(table.files() if table.exists() else ())
    yield from (file for file in found if str(file.relative_to(table.folder)) not in known)


def vacuum(table: Table, states: Iterable[State], older_than: float, *, dry_run: bool = False) -> list[Path]:
    """Remove the orphans, and history that is older; which files they were."""
    if table.exists() and not dry_run:
        table.forget_history(older_than)
    found = list(orphans(table, states, older_than))
    if not dry_run:
        for file in found:
            file.unlink(missing_ok=True)
    return found
