"""Files that no table refers to: left by workers that died, or by batches that were tried twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from dragoman.pipeline.state import State
from dragoman.pipeline.tables import Table
from dragoman.pipeline.tables.table import STAGING


def orphans(table: Table, state: State, older_than: float) -> Iterator[Path]:
    """Data files that are in no commit and in no decision to come, and older than so many seconds."""
    known = set(table.files()) if table.exists() else set()
    for decision in state.decisions():
        known.update(file.path for file in (*decision.valid, *decision.quarantined))
    limit = time.time() - older_than
    for subfolder in {table.data_folder, STAGING}:
        for file in sorted(Path(table.folder, subfolder).rglob("*.parquet")):
            if str(file.relative_to(table.folder)) not in known and file.stat().st_mtime < limit:
                yield file


def vacuum(table: Table, state: State, older_than: float, *, dry_run: bool = False) -> list[Path]:
    """Remove the orphans; which they were."""
    found = list(orphans(table, state, older_than))
    if not dry_run:
        for file in found:
            file.unlink(missing_ok=True)
    return found
