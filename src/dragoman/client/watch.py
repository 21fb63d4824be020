"""Handlers that have been at one message for long: the log names them, and the metrics show since when."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.client.lane import Lane, Place
from dragoman.core.message import Message
from dragoman.core.run import Entry, message_at

log = logging.getLogger("dragoman.client")


@dataclass(slots=True)
class _Held:
    entry: Entry
    since: float
    told: bool = False


class Watch:
    """Looks now and then at what is being handled, which costs handlers nothing. So times are too short by
    up to the time between two looks.
    """

    def __init__(self, group: str, limit_s: float) -> None:
        self._group = group
        self._limit_s = limit_s
        self._held: dict[Lane, _Held] = {}

    def look(self, places: Iterable[Place], now: float) -> None:
        """``now`` is of a clock that does not jump."""
        held = {}
        for place in places:
            for lane in place.lanes:
                if not lane.running:
                    continue
                entry = lane.running[0]
                known = self._held.get(lane)
                if known is None or known.entry[0] is not entry[0] or known.entry[1] != entry[1]:
                    known = _Held(entry, now)
                held[lane] = known
                if not known.told and now - known.since >= self._limit_s:
                    known.told = True
                    self._warn(place.intake.name, message_at(entry), now - known.since)
        self._held = held

    def forget(self) -> None:
        """The deliveries are given up."""
        self._held.clear()

    def oldest_s(self, now: float) -> float:
        """How long the message that has been handled longest has been seen with its handler."""
        return max((now - each.since for each in self._held.values()), default=0.0)

    def _warn(self, endpoint: str, message: Message, seconds: float) -> None:
        log.warning(
            "A handler is slow: the messages behind this one wait.",
            extra={
                "endpoint": endpoint,
                "channel": message.channel,
                "partition": message.partition,
                "offset": message.offset,
                "group": self._group,
                "seconds": round(seconds, 1),
                "error_code": "endpoint.slow",
            },
        )
