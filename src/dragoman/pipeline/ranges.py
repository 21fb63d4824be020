"""Which ranges of which partitions are read, and by how many tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from dragoman.core.broker import LogReader
from dragoman.core.errors import BrokerError
from dragoman.pipeline.offsets import Bound, Offsets, bounds_by_partition, in_order
from dragoman.pipeline.options import SourceOptions
from dragoman.pipeline.reading import Range


def kept_offsets(
    log: LogReader, channels: list[str], options: SourceOptions
) -> dict[str, dict[int, tuple[int, int]]]:
    """Per channel and chosen partition, the first offset kept and the end."""
    chosen = frozenset(options.partitions)
    return {
        channel: {
            partition: kept
            for partition, kept in log.partitions(channel).items()
            if not chosen or partition in chosen
        }
        for channel in channels
    }


def bound_offsets(
    log: LogReader,
    kept: dict[str, dict[int, tuple[int, int]]],
    bound: Bound,
    fallback: Literal["earliest", "latest"],
) -> Offsets:
    """A bound as offsets. ``fallback`` is for partitions it does not name."""
    find = bounds_by_partition(log, bound, fallback)
    return in_order(
        {
            channel: {str(partition): find(channel, partition, limits) for partition, limits in inner.items()}
            for channel, inner in kept.items()
        }
    )


def ranges_between(start: Offsets, end: Offsets) -> list[Range]:
    """One range for each partition with something to read. One that is new since ``start`` is read whole."""
    return [
        Range(channel, int(partition), start.get(channel, {}).get(partition, 0), high)
        for channel, inner in end.items()
        for partition, high in inner.items()
        if high > start.get(channel, {}).get(partition, 0)
    ]


def refuse_lost(
    ranges: list[Range], kept: dict[str, dict[int, tuple[int, int]]], known: Offsets, options: SourceOptions
) -> None:
    """Raise if messages that should be read are not kept any more.

    A partition that is not ``known`` is new: it is read from where it begins.
    """
    if not options.fail_on_data_loss:
        return
    for each in ranges:
        low, _ = kept.get(each.channel, {}).get(each.partition, (0, 0))
        if each.start < low and str(each.partition) in known.get(each.channel, {}):
            raise lost(each.channel, each.partition, f"from {each.start} to {low - 1} are not kept any more")


def refuse_shrunk(start: Offsets, end: Offsets, options: SourceOptions) -> None:
    """Raise if a partition ends before what was read of it: it was made anew, or lost its end."""
    if not options.fail_on_data_loss:
        return
    for channel, inner in end.items():
        for partition, high in inner.items():
            if high < start.get(channel, {}).get(partition, 0):
                read = start[channel][partition]
                raise lost(channel, int(partition), f"were read up to {read}, but end at {high} now")


def lost(channel: str, partition: int, what: str) -> BrokerError:
    return BrokerError(
        f"The messages {what}.",
        code="broker.data-loss",
        next="Set failOnDataLoss to false to go on without them, or start anew.",
        channel=channel,
        partition=partition,
    )


def split(ranges: list[Range], least: int) -> list[Range]:
    """At least so many ranges, if there are enough messages, cut where there are most."""
    total = sum(each.end - each.start for each in ranges)
    if len(ranges) >= least or not total:
        return ranges
    cut: list[Range] = []
    for each in ranges:
        size = each.end - each.start
        parts = max(1, min(size, -(-least * size // total)))
        edges = [each.start + size * number // parts for number in range(parts + 1)]
        cut += [Range(each.channel, each.partition, low, high) for low, high in pairwise(edges) if high > low]
    return cut


def grouped(ranges: list[Range], most: int = 1_000) -> list[tuple[Range, ...]]:
    """What each task reads: one range, or of very many small ones several, so that tasks stay few."""
    if len(ranges) <= most:
        return [(each,) for each in ranges]
    share = -(-sum(each.end - each.start for each in ranges) // most)
    tasks: list[tuple[Range, ...]] = []
    taken: list[Range] = []
    size = 0
    for each in ranges:
        if taken and size + each.end - each.start > share:
            tasks.append(tuple(taken))
            taken, size = [], 0
        taken.append(each)
        size += each.end - each.start
    return [*tasks, tuple(taken)]
