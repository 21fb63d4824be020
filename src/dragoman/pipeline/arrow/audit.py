"""Would every archived message still be readable under a candidate? Counts, and some examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dragoman.pipeline.arrow.decoder import Decoded, Decoder
from dragoman.pipeline.arrow.rejection import Rejection

SAMPLES = 5


class Finding(NamedTuple):
    """What was counted together. ``schema_id`` is -1 for a message without a frame; ``code`` "" for good."""

    schema_id: int
    partition: int
    code: str
    path: str


@dataclass(slots=True)
class Audit:
    """Adds up over batches and, with ``merge``, over workers."""

    counts: Counter[Finding] = field(default_factory=Counter)
    samples: dict[Finding, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def read(self) -> int:
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        return sum(number for finding, number in self.counts.items() if finding.code)

    def add(self, decoded: Decoded, partition: int, offsets: Any) -> None:
        """Count one batch of a partition; ``offsets`` is as long as it."""
        ids = decoded.schema_ids.fill_null(-1).to_numpy(zero_copy_only=False)
        for schema_id, number in zip(*np.unique(ids, return_counts=True), strict=True):
            self.counts[Finding(int(schema_id), partition, "", "")] += int(number)
        for row, rejection in decoded.rejections.items():
            self._reject(int(ids[row]), partition, int(offsets[row]), rejection)

    def _reject(self, schema_id: int, partition: int, offset: int, rejection: Rejection) -> None:
        self.counts[Finding(schema_id, partition, "", "")] -= 1
        finding = Finding(schema_id, partition, str(rejection.code), rejection.path)
        self.counts[finding] += 1
        kept = self.samples.setdefault(finding, [])
        if len(kept) < SAMPLES:
            kept.append((offset, rejection.reason))

    def merge(self, other: Audit) -> None:
        self.counts.update(other.counts)
        for finding, found in other.samples.items():
            kept = self.samples.setdefault(finding, [])
            self.samples[finding] = sorted([*kept, *found])[:SAMPLES]


def audit(decoder: Decoder, batches: Iterable[tuple[int, Any, Any]]) -> Audit:
    """``batches`` are of a partition, the offsets and the frames."""
    total = Audit()
    for partition, offsets, frames in batches:
        total.add(decoder.decode(frames), partition, offsets)
    return total
