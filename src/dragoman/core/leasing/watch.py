"""Which members of a group are dead, seen from one of them."""

from __future__ import annotations

import time

from dragoman.core.leasing.records import Records
from dragoman.core.leasing.roster import Roster

ASK_AFTER = 0.5
"""A member that was silent for so long is looked for."""
GRACE = 1.0
"""So long a member may be without a connection before it is out."""


class Watch:
    """A member is dead when it did not beat for its lease, by our clock alone, or was away for a while."""

    def __init__(self, own: str) -> None:
        self.dead: set[str] = set()
        self._own = own
        self._beats: dict[str, tuple[int, float]] = {}
        self._gone: dict[str, tuple[int, float]] = {}
        self._ask_at = 0.0

    async def observe(self, roster: Roster, records: Records) -> None:
        """Note who beats, and ask for those that are silent: that takes as long as they take to answer."""
        self.note(roster)
        if await self._look_for_silent(records, roster):
            self.note(roster)

    def note(self, roster: Roster) -> None:
        """Note who beats, without asking anybody.

        Between reading the roster and changing it there must be nothing to wait for: others change it, too,
        and whoever asks a slow member in between is always too late.
        """
        now = time.monotonic()
        others = {name: member for name, member in roster.members.items() if name != self._own}
        for name, member in others.items():
            if self._beats.get(name, (-1, 0.0))[0] != member.beat:
                self._beats[name] = member.beat, now
        self._beats = {name: seen for name, seen in self._beats.items() if name in others}
        self.dead = {
            name
            for name, member in others.items()
            if now - self._beats[name][1] > member.lease or self._is_away(name, member.beat, now)
        }

    def _is_away(self, name: str, beat: int, now: float) -> bool:
        seen = self._gone.get(name)
        return seen is not None and seen[0] == beat and now - seen[1] >= GRACE

    async def _look_for_silent(self, records: Records, roster: Roster) -> bool:
        """Whether anybody was asked for."""
        now = time.monotonic()
        silent = {name for name, (_, since) in self._beats.items() if now - since >= ASK_AFTER}
        self._gone = {name: seen for name, seen in self._gone.items() if name in silent}
        if not silent or now < self._ask_at:
            return False
        self._ask_at = now + ASK_AFTER
        gone = await records.gone({roster.members[name].seat for name in silent})
        now = time.monotonic()
        for name in silent:
            member = roster.members[name]
            if member.seat not in gone:
                self._gone.pop(name, None)
            elif self._gone.get(name, (-1, 0.0))[0] != member.beat:
                self._gone[name] = member.beat, now
        return True
