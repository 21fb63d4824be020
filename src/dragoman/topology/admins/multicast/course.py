"""The courses that the numbers of a sender take: which datagrams it can have sent.

Without an identity, a datagram says whose it is, but nothing proves it. A forger on another machine cannot
easily send from the address and port of the sender. So the numbers from each source are a course of their
own, with its own assembly and its own name in the metrics: nothing that comes from another source changes it.
Numbers elsewhere are in doubt until they continue each other. Then they are believed, and the old course
stays: no rule can tell which of the two is the sender's, and dropping messages of the sender is worse than
delivering those of a forger.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import TypeAlias

from dragoman.topology.admins.multicast.assembly import Assembly
from dragoman.topology.admins.multicast.datagram import BEAT, Datagram
from dragoman.topology.metrics import TopicMetrics

log = logging.getLogger("dragoman.topology")

NEAR = 1024
"""Numbers that a course may go ahead or back at once, by loss or because datagrams overtake each other."""
RUN = 3
"""So many datagrams have to continue each other before numbers elsewhere are believed."""
QUIET = 5.0
"""Seconds without a datagram until another course may take this one's place. Senders speak more often."""
MOST_COURSES = 4
"""Of one sender that are believed at a time, and as many that are in doubt."""
MOST_HELD = 8
"""Messages that one course in doubt may hold."""
SIGNED_NEAR = 65_536
"""Numbers that a signed datagram may be behind."""
LATE_MS = 5_000
"""How much older than the newest a signed datagram may be, for datagrams overtake each other."""

Source: TypeAlias = tuple[str, int]
"""The address and port that a datagram came from."""


class Verdict(Enum):
    TAKE = auto()
    FORGED = auto()
    STALE = auto()
    """The sender has signed it, but too long ago: somebody has recorded it."""


class Course:
    """Numbers of one source that are near each other, and the messages that come with them."""

    __slots__ = (
        "assembly",
        "at",
        "believed",
        "contested",
        "count",
        "first",
        "heard",
        "held",
        "origin",
        "run",
        "source",
    )

    def __init__(self, source: Source, number: int, now: float, largest: int) -> None:
        self.source = source
        self.first = self.at = number
        self.heard = now
        self.origin = ""
        """Its name in the metrics, once it is believed."""
        self.believed = False
        """Its messages are delivered. Those of others are held."""
        self.count = 1
        self.run = 1
        self.contested = False
        """While it was in doubt, another course of its source has gone on: they are two."""
        self.assembly = Assembly(largest)
        self.held: deque[tuple[Datagram, bytes | None]] = deque()

    @property
    def is_sure(self) -> bool:
        """A second datagram has continued the first one."""
        return self.count > 1

    def is_near(self, source: Source, number: int) -> bool:
        return self.source == source and -NEAR <= number - self.at <= NEAR

    def go_on(self, datagram: Datagram, now: float) -> None:
        number = datagram.sequence
        self.count += 1
        self.heard = now
        # A message that is sent again continues nothing. A beat is sent again and again by an idle sender.
        if number > self.at or (number == self.at and datagram.kind == BEAT):
            self.run += 1
            self.at = number

    def hold(self, datagram: Datagram, message: bytes | None) -> None:
        """Until it is believed. More than it has room for is dropped."""
        if len(self.held) < MOST_HELD:
            self.held.append((datagram, message))


class Courses:
    """All that speak in the name of one sender without an identity.

    ``origin`` is the sender's name in the metrics. ``forget`` is called with a name in the metrics when the
    course that had it is given up, or begins again with earlier numbers.
    """

    def __init__(
        self, origin: str, largest: int, metrics: TopicMetrics, forget: Callable[[str], None]
    ) -> None:
        self._origin = origin
        self._largest = largest
        self._metrics = metrics
        self._forget = forget
        self._names = (origin, *(f"{origin}#{number}" for number in range(2, MOST_COURSES + 1)))
        self._believed: dict[str, Course] = {}
        """By their names, of which the first is the sender's own."""
        self._doubted: dict[Source, Course] = {}

    def follow(self, datagram: Datagram, source: Source, now: float) -> Course:
        """The course of a datagram. Its messages are held unless it is believed.

        ``now`` is of a clock that does not jump.
        """
        if self._doubted:
            self._drop_silent(now)
        for course in self._believed.values():
            if course.is_near(source, datagram.sequence):
                course.go_on(datagram, now)
                if course.count == 2:
                    self._settle(course)
                if source in self._doubted:
                    self._doubted[source].contested = True
                return course
        doubted = self._doubted.get(source)
        if doubted is not None and doubted.is_near(source, datagram.sequence):
            doubted.go_on(datagram, now)
            return doubted if doubted.run < RUN else self._believe(doubted, now)
        if doubted is not None:
            self._drop(doubted)
        return self._begin(Course(source, datagram.sequence, now, self._largest))

    def _begin(self, course: Course) -> Course:
        if not any(each.is_sure for each in self._believed.values()):
            # None is known to be the sender's. The one that goes on first is.
            self._set(self._place_of(course, course.heard), course)
            return course
        if len(self._doubted) >= MOST_COURSES:
            self._drop(_least(self._doubted.values(), course))
        self._doubted[course.source] = course
        return course

    def _believe(self, course: Course, now: float) -> Course:
        del self._doubted[course.source]
        continued = self._continued(course, now)
        if continued is None:
            self._set(self._place_of(course, now), course)
            log.warning(
                "Two sources send in the name of one sender. Both are delivered: use identities.",
                extra={"origin": self._origin, "second": course.origin, "source": str(course.source)},
            )
            return course
        if course.first < continued.at:
            # Far ahead is what was missed; else the earlier numbers were not this sender's.
            self._forget(continued.origin)
        self._set(continued.origin, course)
        return course

    def _continued(self, course: Course, now: float) -> Course | None:
        """The course whose sender has gone on elsewhere, by all that can be known."""
        if not course.contested:
            for each in self._believed.values():
                if each.source == course.source:
                    return each
        own = self._believed.get(self._origin)
        return own if own is not None and now - own.heard > QUIET else None

    def _place_of(self, course: Course, now: float) -> str:
        """A name for another course, which is free or which another one has to give up."""
        for name in self._names:
            if name not in self._believed:
                return name
        others = [each for name, each in self._believed.items() if name != self._origin]
        silent = (each for each in others if now - each.heard > QUIET)
        given_up = next(silent, None) or _least(self._believed.values(), course)
        self._remove(given_up)
        return given_up.origin

    def _settle(self, course: Course) -> None:
        """This course is the first that goes on. The others, of one datagram each, are in doubt now."""
        for each in list(self._believed.values()):
            if each is not course:
                self._remove(each)
                each.believed = False
                self._doubted[each.source] = each
        if self._origin not in self._believed:
            self._remove(course)
            self._set(self._origin, course)

    def _remove(self, course: Course) -> None:
        del self._believed[course.origin]
        self._forget(course.origin)

    def _set(self, name: str, course: Course) -> None:
        course.origin, course.believed = name, True
        self._believed[name] = course

    def _drop_silent(self, now: float) -> None:
        for each in list(self._doubted.values()):
            if now - each.heard > QUIET:
                self._drop(each)

    def _drop(self, course: Course) -> None:
        del self._doubted[course.source]
        self._metrics.forged += course.count


def _least(courses: Iterable[Course], new: Course) -> Course:
    """The one to give up for a new one: of the host that has most, the one that is silent longest.

    So the many ports of one host do not drive out the courses of others.
    """
    found = list(courses)
    hosts = Counter(each.source[0] for each in (*found, new))
    return max(found, key=lambda each: (hosts[each.source[0]], -each.heard))


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
        if number < self._at - SIGNED_NEAR:
            return Verdict.FORGED
        self._newest_ms = max(self._newest_ms, sealed_at_ms)
        self._at = max(self._at, number)
        return Verdict.TAKE
