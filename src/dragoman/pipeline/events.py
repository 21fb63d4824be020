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


def read_events(log: Path, pipeline: str, query: Any = None) -> Progress:
    batches: dict[int, dict[str, Any]] = {}
    if log.exists():
        for line in log.read_text().splitlines():
            event = json.loads(line)
            batches[event["batch"]] = event
    last = query.lastProgress if query is not None else None
    return Progress(
        pipeline,
        max(batches, default=-1),
        sum(event["read"] for event in batches.values()),
        sum(event["valid"] for event in batches.values()),
        sum(event["quarantined"] for event in batches.values()),
        float(last["processedRowsPerSecond"]) if last else 0.0,
        _behind(last),
    )


def _behind(last: Any) -> int | None:
    """Messages that were there when the last batch was planned, and are in no batch yet."""
    if not last or not last["sources"]:
        return None
    source = last["sources"][0]
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not latest or not end:
        return None
    ends = _offsets(end)
    return sum(max(0, offset - ends.get(place, 0)) for place, offset in _offsets(latest).items())


def _offsets(stored: Any) -> dict[tuple[str, str], int]:
    """Spark shows a source's offsets as JSON text or as what it holds: channels, partitions, numbers."""
    channels = json.loads(stored) if isinstance(stored, str) else stored
    return {
        (channel, partition): int(offset)
        for channel, partitions in channels.items()
        for partition, offset in partitions.items()
    }
