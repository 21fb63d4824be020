"""What each broker can do, side by side, as its adapter declares it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.core.broker import Capabilities, Sharing
from dragoman.core.errors import ExtraMissing
from dragoman.core.loading import BROKERS, load, names

ROWS: Mapping[str, str] = {
    "durable": "what is accepted survives a kill of any process, the server's too",
    "groups": "members of a group share, groups do not",
    "ordering": "order holds within",
    "acknowledgement": "acknowledgement",
    "sharing": "ways of sharing",
    "temporary_groups": "groups that go with their last member",
    "replay": "the history can be read again, by Spark too",
    "new_groups_see_history": "a new group starts at the earliest message",
    "start_by_time": "a group may start at a time",
    "start_by_offset": "a group may start at an offset",
    "keys": "keys",
    "headers": "headers",
    "delayed_delivery": "delayed delivery, blocking nobody",
    "delivery_count": "deliveries are counted, over crashes too",
    "deduplication": "a repeated message id is stored once",
    "transactions": "publish and acknowledge, all or nothing",
    "lag": "lag of groups",
}
"""Every capability, in the order of the table, in words."""

Table = Mapping[str, Mapping[str, str]]


def compare(schemes: Sequence[str] | None = None) -> Table:
    """By capability and scheme: ``yes``, ``-``, or which.

    Brokers whose extra is missing are left out, and second names of one that is there.
    """
    adapters: dict[str, Any] = {}
    for scheme in schemes or names(BROKERS):
        try:
            adapter = load(BROKERS, scheme)
        except ExtraMissing:
            continue
        if schemes or adapter not in adapters.values():
            adapters[scheme] = adapter
    found: dict[str, Capabilities] = {scheme: each.capabilities for scheme, each in adapters.items()}
    return {name: {scheme: _said(able, name) for scheme, able in found.items()} for name in ROWS}


def _said(able: Capabilities, name: str) -> str:
    value = getattr(able, name)
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, frozenset):
        return "all" if value == frozenset(Sharing) else ", ".join(sorted(value))
    return str(value)


def markdown(table: Table) -> str:
    """For the documentation."""
    schemes = list(next(iter(table.values())))
    lines = [["", *(f"`{scheme}://`" for scheme in schemes)], ["---"] * (len(schemes) + 1)]
    lines += [[ROWS[name], *cells.values()] for name, cells in table.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
