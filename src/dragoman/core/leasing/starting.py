"""Where a group that is new to a channel begins."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.broker import LogReader, Start
from dragoman.core.partitioning import start_at_offset


def starts_in(reader: LogReader, channel: str, start: Start) -> list[int]:
    """Per partition the first offset to deliver."""
    bounds = [place for _, place in sorted(reader.partitions(channel).items())]
    if start == "earliest":
        return [first for first, _ in bounds]
    if start == "latest":
        return [end for _, end in bounds]
    if isinstance(start, Mapping):
        return start_at_offset(start, channel, bounds)
    return [reader.offset_at(channel, number, int(start)) for number in range(len(bounds))]
