"""What must hold of every delivery, whatever breaks: checked on each event of the broker and each call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from dragoman.client import headers as names
from dragoman.core.message import Message
from dragoman.testing.simulation.broker import Accepted, Delivered, Event, Moved, Place, Returned, Settled
from dragoman.testing.simulation.jobs import WELL_BEHAVED, Ending
from dragoman.testing.simulation.scenario import Violation

Spot = tuple[Place, int]
"""A message: its partition and its offset."""


class Ledger:
    """``fail`` ends the run. ``is_ordered_by_key``: several handlers of one partition may run at once."""

    def __init__(self, fail: Callable[[Violation], None], is_ordered_by_key: bool, is_threaded: bool) -> None:
        self._fail = fail
        self._is_ordered_by_key = is_ordered_by_key
        self._is_threaded = is_threaded
        self.spots: dict[int, Spot] = {}
        """By the number of the job."""
        self.endings: dict[Spot, Ending] = {}
        self.handled: dict[Spot, set[str]] = defaultdict(set)
        """By which members."""
        self.letters: set[Spot] = set()
        """What stands in a channel for dead or invalid messages."""
        self.settled: set[Spot] = set()
        self.closing: dict[str, Callable[[], bool]] = {}
        """Members that are being closed, and whether all their calls to the broker have succeeded since."""
        self._keys: dict[Spot, bytes | None] = {}
        self._delivered: dict[tuple[str, Spot], int] = {}
        """To whom, and in which epoch it was."""
        self._aside: set[Spot] = set()
        """Released with a delay: they come back out of order."""
        self._begun: dict[tuple[Place, int, bytes | None], int] = {}
        """The furthest offset of each key, within one epoch."""
        self._seen: set[tuple[Spot, str]] = set()
        """What each member has begun: repetitions may come at any time, since an older delivery of the same
        partition may still be queued when the next owner, the same client, is given it again."""
        self._running: dict[tuple[str, Place, bytes | None], int] = {}
        self._done: set[tuple[Spot, int | None]] = set()
        """What was handled, with the epoch in which it had been delivered."""

    def expect(self, number: int, message: Message, ending: Ending) -> None:
        """A job that was accepted."""
        spot = (message.channel, message.partition or 0), message.offset or 0
        self.spots[number] = spot
        self.endings[spot] = ending
        self._keys[spot] = message.key

    # What the broker tells

    def listen(self, event: Event) -> None:
        match event:
            case Accepted(message=message) if message.header(names.ORIGINAL_CHANNEL) is not None:
                channel, partition, offset = (
                    (message.header(name) or b"").decode()
                    for name in (names.ORIGINAL_CHANNEL, names.ORIGINAL_PARTITION, names.ORIGINAL_OFFSET)
                )
                self._check_letter(((channel, int(partition)), int(offset)))
            case Delivered(message=message, member=member, epoch=epoch):
                spot = (message.channel, message.partition or 0), message.offset or 0
                self._delivered[member, spot] = epoch
            case Returned(place=place, offset=offset, delay=delay) if delay > 0:
                self._aside.add((place, offset))
            case Settled(place=place, offset=offset, member=member):
                self._check_settled((place, offset), member)
            case Moved():
                self._check_moved(event)

    def _check_letter(self, spot: Spot) -> None:
        """A message whose handler returns is put aside only if another handler cancels that one's task."""
        self.letters.add(spot)
        if self.endings[spot] in WELL_BEHAVED and Ending.STRAY not in self.endings.values():
            self._violate("letter", f"{_named(spot)} is put aside, though its handler behaves well.")

    def _check_settled(self, spot: Spot, member: str) -> None:
        self.settled.add(spot)
        if member not in self.handled[spot] and spot not in self.letters:
            self._violate(
                "acknowledged", f"{_named(spot)} was acknowledged by {member}, which had not handled it."
            )

    def _check_moved(self, event: Moved) -> None:
        """A member that closes has acknowledged what it handled, if all its handlers behaved."""
        member = event.former
        if member is None or not event.is_left or not self.closing.get(member, bool)():
            return
        spots = [(event.place, offset) for offset in event.abandoned]
        if any(self.endings[spot] not in WELL_BEHAVED for spot in self._held_by(member, event.place)):
            return
        for spot in spots:
            if (spot, self._delivered[member, spot]) in self._done:
                self._violate(
                    "closed",
                    f"{member} was closed, and left {_named(spot)} that it had handled unacknowledged.",
                )

    def _held_by(self, member: str, place: Place) -> Collection[Spot]:
        return [spot for holder, spot in self._delivered if holder == member and spot[0] == place]

    # What handlers tell

    def begin(self, member: str, numbers: Collection[int]) -> None:
        """A handler is called, for one job or for a batch."""
        for number in numbers:
            self._begin(member, number, numbers)

    def _begin(self, member: str, number: int, together: Collection[int]) -> None:
        spot = self.spots[number]
        place, offset = spot
        epoch = self._delivered.get((member, spot))
        if epoch is None:
            self._violate("given", f"{member} handles {_named(spot)}, which it was never given.")
            return
        key = self._keys[spot] if self._is_ordered_by_key else b""
        if self._is_ordered_by_key and key is None:
            return
        if not self._is_threaded:
            other = self._running.setdefault((member, place, key), number)
            if other not in together:
                self._violate(
                    "at once", f"{member} handles {_named(spot)} and {_named(self.spots[other])} at once."
                )
        if (spot, member) in self._seen:
            return
        self._seen.add((spot, member))
        if spot in self._aside:
            return
        before = self._begun.get((place, epoch, key), -1)
        if offset < before:
            self._violate(
                "order", f"{member} handles {_named(spot)} after offset {before}, which comes later."
            )
        self._begun[place, epoch, key] = max(before, offset)

    def end(self, member: str, numbers: Collection[int]) -> None:
        """The handler has ended, in whatever way."""
        for running in [running for running, number in self._running.items() if number in numbers]:
            if running[0] == member:
                del self._running[running]

    def done(self, member: str, numbers: Collection[int]) -> None:
        """The handler has ended well."""
        for number in numbers:
            spot = self.spots[number]
            self.handled[spot].add(member)
            self._done.add((spot, self._delivered.get((member, spot))))

    # At the end

    def unsettled(self, but: Collection[Place] = ()) -> list[Spot]:
        return [spot for spot in self.endings if spot not in self.settled and spot[0] not in but]

    def check_end(self) -> None:
        """Accepted means handled or put aside."""
        for spot in self.endings:
            if not self.handled[spot] and spot not in self.letters:
                self._violate("lost", f"{_named(spot)} was accepted, and neither handled nor put aside.")

    def _violate(self, rule: str, what: str) -> None:
        self._fail(Violation(what, rule))


def _named(spot: Spot) -> str:
    (channel, partition), offset = spot
    return f"{channel}-{partition}@{offset}"
