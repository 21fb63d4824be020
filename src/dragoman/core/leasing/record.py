"""How far a group is in one partition, as bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dragoman.core.clock import from_wall_clock, to_wall_clock
from dragoman.core.progress import Progress


@dataclass(slots=True)
class ShareRecord:
    """``epoch`` is the one of the owner that wrote it: who finds a later one has lost the partition."""

    epoch: int
    progress: Progress

    def encode(self) -> bytes:
        progress = self.progress
        plain = b'{"epoch":%d,"position":%d,"cursor":%d' % (self.epoch, progress.position, progress.cursor)
        if progress.plain:
            return plain + b"}"
        more = {
            "tried": _runs(progress.tried),
            "aside": [[offset, to_wall_clock(due), tried] for offset, (due, tried) in progress.aside.items()],
            "returned": list(progress.returned.items()),
        }
        return plain + b"," + json.dumps(more, separators=(",", ":")).encode()[1:]

    @classmethod
    def decode(cls, data: bytes) -> ShareRecord:
        found = json.loads(data)
        progress = Progress(found["position"])
        progress.cursor = found["cursor"]
        for first, last, count in found.get("tried", ()):
            progress.tried.update(dict.fromkeys(range(first, last + 1), count))
        for offset, due, count in found.get("aside", ()):
            progress.put_aside(offset, from_wall_clock(due), count)
        progress.returned = dict(found.get("returned", ()))
        return cls(found["epoch"], progress)


def committed_in(data: bytes) -> int:
    """Everything before this offset is done."""
    return ShareRecord.decode(data).progress.committed


def _runs(tried: dict[int, int]) -> list[list[int]]:
    """Neighbours that were tried as often as each other share an entry: a crash may leave thousands."""
    runs: list[list[int]] = []
    for offset, count in sorted(tried.items()):
        if runs and runs[-1][1] == offset - 1 and runs[-1][2] == count:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset, count])
    return runs
