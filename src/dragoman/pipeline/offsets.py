"""Where reading starts and ends, and how offsets are written down in a checkpoint.

Spark compares offsets as text, so the same offsets must always be written alike: channels and partitions
are strings, in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from dragoman.core.broker import LogReader
from dragoman.core.errors import ConfigurationError

Offsets = dict[str, dict[str, int]]
"""Per channel, per partition (as text), the next offset to read."""


class Moment(NamedTuple):
    """A time as a bound: milliseconds since 1970."""

    timestamp: int


class PerPartition(NamedTuple):
    """Offsets by channel and partition, as text. The channel "" stands for the only one."""

    offsets: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


Bound = Literal["earliest", "latest"] | Moment | PerPartition


def parse_bound(name: str, text: str) -> Bound:
    """``earliest``, ``latest``, a time such as ``2026-01-31T08:00:00Z``, or JSON with offsets.

    The JSON is ``{"channel": {"0": 5, "1": 0}}``, or ``{"0": 5}`` if there is one channel. An offset of -2
    is the earliest, -1 the latest.
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    found = _moment(text) or _per_partition(text)
    if found is None:
        raise ConfigurationError(
            f"{name} cannot be {text!r}.",
            code="configuration.option",
            next='Allowed: earliest, latest, a time such as 2026-01-31T08:00:00Z, or {"channel": {"0": 5}}.',
        )
    return found


def _moment(text: str) -> Moment | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Moment(int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def _per_partition(text: str) -> PerPartition | None:
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(given, dict) or not given:
        return None
    if all(_is_partition(key, value) for key, value in given.items()):
        given = {"": given}
    for inner in given.values():
        if not isinstance(inner, dict) or not all(_is_partition(key, value) for key, value in inner.items()):
            return None
    return PerPartition(tuple((channel, tuple(inner.items())) for channel, inner in given.items()))


def _is_partition(key: str, value: object) -> bool:
    return key.isdecimal() and isinstance(value, int) and not isinstance(value, bool) and value >= -2


def in_order(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The one way these offsets are written down."""
    return {
        channel: {number: offsets[channel][number] for number in sorted(offsets[channel])}
        for channel in sorted(offsets)
    }


def bounds_by_partition(
    log: LogReader, bound: Bound, fallback: Literal["earliest", "latest"]
) -> Callable[[str, int, tuple[int, int]], int]:
    """How to find the offset that a bound means, from a channel, a partition, its first offset and its end.

    ``fallback`` is taken for partitions that a bound by partitions does not name.
    """
    named = _by_place(bound) if isinstance(bound, PerPartition) else {}
    plain = fallback if isinstance(bound, PerPartition) else bound

    def find(channel: str, partition: int, kept: tuple[int, int]) -> int:
        if isinstance(plain, Moment):
            return log.offset_at(channel, partition, plain.timestamp)
        low, high = kept
        place = str(partition)
        usual = low if plain == "earliest" else high
        offset = named.get((channel, place), named.get(("", place), usual))
        return {-2: low, -1: high}.get(offset, offset)

    return find


def _by_place(bound: PerPartition) -> dict[tuple[str, str], int]:
    return {(channel, partition): offset for channel, inner in bound.offsets for partition, offset in inner}


def limited(start: Offsets, end: Offsets, rows: int) -> Offsets:
    """An end that is at most ``rows`` offsets after the start, every partition getting on by its share."""
    behind = {
        (channel, partition): high - start.get(channel, {}).get(partition, 0)
        for channel, inner in end.items()
        for partition, high in inner.items()
    }
    total = sum(max(0, each) for each in behind.values())
    if total <= rows:
        return end
    shares = {key: max(0, each) * rows // total for key, each in behind.items()}
    left = rows - sum(shares.values())
    for key, each in behind.items():
        more = min(left, max(0, each) - shares[key])
        shares[key] += more
        left -= more
    reached = {channel: dict(inner) for channel, inner in end.items()}
    for (channel, partition), share in shares.items():
        reached[channel][partition] = start.get(channel, {}).get(partition, 0) + share
    return in_order(reached)
