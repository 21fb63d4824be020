"""How a pipeline is doing, from its event log and Spark's own progress."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """Totals since the pipeline's first batch; rate and lag as Spark saw them last."""

    pipeline: str
    batch: int
    read: int
    valid: int
    quarantined: int
    rows_per_second: float
    behind: int | None


class Totals:
    """The sums over an event log. Each look reads only what was appended since the last one."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read_to = 0
        self.batch = -1
        self.read = 0
        self.valid = 0
        self.quarantined = 0

    def update(self) -> Totals:
        if self._log.exists():
            with self._log.open("rb") as log:
                log.seek(self._read_to)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    self._read_to += len(line)
                    self.add(line)
        return self

    def add(self, line: bytes) -> None:
        """Batches come in order; one that was tried again is written down again, and counts once."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event["batch"] > self.batch:
            self.batch = event["batch"]
            self.read += event["read"]
            self.valid += event["valid"]
            self.quarantined += event["quarantined"]


def progress_of(totals: Totals, pipeline: str, query: Any = None) -> Progress:
    """Where a pipeline is now; rate and lag only with its running query."""
    totals.update()
    last = query.lastProgress if query is not None else None
    return Progress(
        pipeline,
        totals.batch,
        totals.read,
        totals.valid,
        totals.quarantined,
        float(last["processedRowsPerSecond"]) if last else 0.0,
        _behind(last),
    )


def read_events(log: Path, pipeline: str) -> Progress:
    """Where a pipeline is, by its whole event log."""
    return progress_of(Totals(log), pipeline)


def _behind(last: Any) -> int | None:
    """Messages that were there when the last batch was planned, and are in no batch yet."""
    if not last or not last["sources"]:
        return None
    source = last["sources"][0]
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if not latest or not end:
        return None
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(shown: Any) -> dict[tuple[str, str], int]:
    """Spark shows a source's offsets as JSON text or as what it holds: channels, partitions, numbers.

    It does not ask for the latest ones when it runs a batch of an earlier start again: the text is ``null``.
    """
    channels = json.loads(shown) if isinstance(shown, str) else shown
    return {
        (channel, partition): int(offset)
        for channel, partitions in (channels or {}).items()
        for partition, offset in partitions.items()
    }
