"""Committing a batch on the driver: decide, quarantine, table, each once however often the batch is tried.

This module knows neither Spark nor Arrow. So the simulator runs it with a crash at every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.pipeline.state import Decision, State
from dragoman.pipeline.tables.table import DataFile, Table


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """What all batches of one pipeline are committed with.

    A batch may be cut short anywhere, and is then tried again, with other files: the workers write again.
    So the first decision stands, and each table is asked for the last batch it has before it is given one.
    The quarantine comes first, so that a message is missing in the table rather than in both.
    """

    application: str
    state: State
    quarantine: Table
    table: Table
    merge_by: tuple[str, ...] = ()
    before_merge: Callable[[Sequence[DataFile]], None] | None = None
    """Called with files that are about to be merged, never with files that were: they may be gone."""

    def run(self, written: Decision) -> Decision:
        """Commit what the workers have written, or what was decided for this batch before."""
        decision = self.state.decide(written)
        if self.quarantine.last_batch(self.application) < decision.batch:
            self.quarantine.append(decision.quarantined, self.application, decision.batch)
        if self.table.last_batch(self.application) < decision.batch:
            if self.merge_by and decision.valid:
                if self.before_merge is not None:
                    self.before_merge(decision.valid)
                self.table.upsert(decision.valid, self.merge_by, self.application, decision.batch)
            else:
                self.table.append(decision.valid, self.application, decision.batch)
        self._record(decision)
        self.state.forget_before(decision.batch)
        return decision

    def _record(self, decision: Decision) -> None:
        self.state.record(
            {
                "time": time.time(),
                "pipeline": self.application,
                "batch": decision.batch,
                "read": decision.read,
                "valid": decision.rows,
                "quarantined": decision.rejected,
            }
        )
