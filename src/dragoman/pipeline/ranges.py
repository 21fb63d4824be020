"""Which ranges of which partitions are read, and by how many tasks."""

from __future__ import annotations

from itertools import pairwise

from dragoman.core.broker import LogReader
from dragoman.core.errors import BrokerError
from dragoman.pipeline.offsets import Bound, Offsets, bound_offset, in_order
from dragoman.pipeline.options import SourceOptions
from dragoman.pipeline.reading import Range


def kept_offsets(
    log: LogReader, channels: list[str], options: SourceOptions
) -> dict[str, dict[int, tuple[int, int]]]:
    """Per channel and chosen partition, the first offset kept and the end."""
    return {
        channel: {
            partition: kept
            for partition, kept in log.partitions(channel).items()
            if not options.partitions or partition in options.partitions
        }
        for channel in channels
    }


def bound_offsets(
    log: LogReader, kept: dict[str, dict[int, tuple[int, int]]], bound: Bound, fallback: str
) -> Offsets:
    """A bound as offsets. ``fallback`` is for partitions it does not name: ``earliest`` or ``latest``."""
    return in_order(
        {
            channel: {
                str(partition): bound_offset(
                    log, bound, channel, partition, limits, limits[0] if fallback == "earliest" else limits[1]
                )
                for partition, limits in inner.items()
            }
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
    ranges: list[Range], kept: dict[str, dict[int, tuple[int, int]]], options: SourceOptions
) -> None:
    """Raise if messages that should be read are not kept any more."""
    if not options.fail_on_data_loss:
        return
    for each in ranges:
        low, _ = kept.get(each.channel, {}).get(each.partition, (0, 0))
        if each.start < low and each.start > 0:
            raise BrokerError(
                f"The messages from {each.start} to {low - 1} are not kept any more.",
                code="broker.data-loss",
                next="Set failOnDataLoss to false to go on without them, or start at earliest.",
                channel=each.channel,
                partition=each.partition,
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
