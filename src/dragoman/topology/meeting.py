"""Telling of publishers and subscribers of one topic that cannot meet, for they use different admins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dragoman.topology.endpoint import Endpoint
from dragoman.topology.slot import Slot
from dragoman.topology.timers import Timers
from dragoman.topology.topic import Role, Topic

log = logging.getLogger("dragoman.topology")

PATIENCE = 5.0
"""Seconds. While programs move from one admin to another they are apart for a moment."""

Known = Callable[[Topic, Role], Mapping[str, Endpoint]]


class Meetings:
    def __init__(self, timers: Timers, known: Known) -> None:
        self._timers = timers
        self._known = known

    def peers(self, slot: Slot) -> int:
        """How many are on the other side, by the same admin."""
        if slot.handler is None:
            return 0
        return len(self._known(slot.topic, slot.role.other)) - len(self._apart(slot))

    def look(self, slot: Slot) -> None:
        """Call it when something has changed on either side."""
        if slot.doubt is None and self._apart(slot).keys() != slot.apart:
            slot.doubt = self._timers.after(PATIENCE, lambda: self._tell(slot))

    def _tell(self, slot: Slot) -> None:
        slot.doubt = None
        apart = self._apart(slot)
        for id, other in apart.items():
            if id not in slot.apart and slot.handler is not None:
                log.warning(
                    "A %s of %s uses %s, this program %s: they will not meet.",
                    other.role,
                    slot.topic,
                    other.admin,
                    slot.handler.admin.type,
                    extra={"topic": slot.topic.key, "endpoint": id},
                )
        slot.apart = frozenset(apart)

    def _apart(self, slot: Slot) -> Mapping[str, Endpoint]:
        if slot.handler is None:
            return {}
        admin = slot.handler.admin.type
        others = self._known(slot.topic, slot.role.other)
        return {id: each for id, each in others.items() if each.admin != admin}
