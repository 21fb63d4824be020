"""Where a sender's numbers can be: what is far from there, or is from earlier, does not count."""

from __future__ import annotations

from enum import Enum, auto

NEAR = 65_536
"""Numbers that a sender may be ahead or behind at once, by loss or because datagrams overtake each other."""
QUIET = 5.0
"""Seconds without a datagram in the course, until others are believed. A sender speaks more often."""
LATE_MS = 5_000
"""How much older than the newest a signed datagram may be, for datagrams overtake each other."""
RUN = 3
"""So many datagrams have to continue each other then."""


class Verdict(Enum):
    TAKE = auto()
    FORGED = auto()
    STALE = auto()
    """The sender has signed it, but too long ago: somebody has recorded it."""
    RESTART = auto()
    """The datagrams before were not the sender's: take this one, and drop those."""


class Course:
    __slots__ = ("_at", "_heard", "_other", "_run", "_sure")

    def __init__(self) -> None:
        self._at: int | None = None
        self._sure = False
        """A second datagram has continued the first one."""
        self._heard = 0.0
        self._other = 0
        self._run = 0

    def judge(self, number: int, now: float) -> Verdict:
        """``now`` is of a clock that does not jump."""
        at = self._at
        if at is None:
            return self._move(number, now)
        if abs(number - at) <= NEAR:
            self._at = max(at, number)
            self._heard, self._sure, self._run = now, True, 0
            return Verdict.TAKE
        if not self._sure:
            return self._move(number, now)
        self._run = self._run + 1 if self._run and 0 <= number - self._other <= NEAR else 1
        self._other = number
        if self._run < RUN or now - self._heard <= QUIET:
            return Verdict.FORGED
        return self._move(number, now)

    def _move(self, number: int, now: float) -> Verdict:
        """Far ahead is what was missed; else the earlier numbers were not the sender's."""
        restarts = self._at is not None and (number < self._at or not self._sure)
        self._at, self._heard, self._run = number, now, 0
        return Verdict.RESTART if restarts else Verdict.TAKE


class SignedCourse:
    """Of a sender whose signatures were checked. It never goes back, however long the sender is silent.

    Only stamps of the sender's own clock are compared with each other, so it does not matter whether the
    clocks of two machines agree. ``since_ms`` is the newest stamp that is known of the sender when the course
    begins; with 0 the first datagram is believed, whatever its age.
    """

    __slots__ = ("_at", "_newest_ms")

    def __init__(self, since_ms: int) -> None:
        self._newest_ms = since_ms
        self._at = 0

    def judge(self, number: int, sealed_at_ms: int) -> Verdict:
        if sealed_at_ms < self._newest_ms - LATE_MS:
            return Verdict.STALE
        if number < self._at - NEAR:
            return Verdict.FORGED
        self._newest_ms = max(self._newest_ms, sealed_at_ms)
        self._at = max(self._at, number)
        return Verdict.TAKE
