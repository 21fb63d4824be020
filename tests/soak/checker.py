"""The checker: what became of the messages of a run, told from its histories alone.

It reports only what the histories prove. Two kinds need care.

Order. A message may be handled again later, so the first handlings count. Whoever takes a partition over
begins at or before the first message that is not acknowledged, and everybody handles a partition in order. So
the first handlings of a key are in order even if a stale owner goes on for a while.

Double ownership. A process that was stopped, or cut off, cannot know that its partition has been given to
another. It may finish what it has, and no broker can prevent that. But its acknowledgements must be refused:
they would move the group past messages that the new owner has not handled. An accepted acknowledgement proves
that its member owned the partition at some moment of the call. Assume that A is given a message, then B has
an acknowledgement accepted, then A has one accepted for its message. A's ownership had ended in between, so
one of the two was the acknowledgement of a former owner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.soak.history import Event, Identity

Key = tuple[int, int]
Process = tuple[str, int]
"""A member, and how often it had been started."""
Owner = tuple[str, int, int]
"""A process, and which of its receivers."""


class Handling(NamedTuple):
    begun: int
    handled: int
    message: Identity
    process: Process


class Acknowledgement(NamedTuple):
    """Accepted, for a message that was last given to ``owner`` at ``received``."""

    called: int
    returned: int
    owner: Owner
    offset: int
    received: int

    def __str__(self) -> str:
        member, life, receiver = self.owner
        times = f"received at {self.received}, acknowledged from {self.called} to {self.returned}"
        return f"{member} (life {life}, receiver {receiver}) offset {self.offset}, {times}"


@dataclass
class Verdict:
    published: int = 0
    """Messages that were sent at least once."""
    confirmed: int = 0
    handled: int = 0
    aside: int = 0
    """Put into the dead letters or invalid messages."""
    lost: list[Identity] = field(default_factory=list)
    """Confirmed to the publisher, and neither handled nor put aside."""
    phantoms: list[Identity] = field(default_factory=list)
    """Handled, and never sent."""
    repeated: int = 0
    """Handlings beyond the number of times that the message was sent."""
    resent: int = 0
    """Further handlings, of messages that the publisher sent again after an error."""
    reordered: list[Identity] = field(default_factory=list)
    """First handled after a later message of their key."""
    double_owned: list[str] = field(default_factory=list)
    """Pairs of accepted acknowledgements, one of which is that of a former owner."""
    early: list[Identity] = field(default_factory=list)
    """Acknowledged by a process that had been given them, before anybody had handled them, and accepted."""
    overlapping: int = 0
    """Handlings that had not ended when another process began to handle a message of the same partition.
    Nobody can prevent that if a member is stopped or cut off."""

    @property
    def is_sound(self) -> bool:
        """Whether every promise was kept: messages may be repeated, and that is all."""
        return not (self.lost or self.phantoms or self.reordered or self.double_owned or self.early)

    def __str__(self) -> str:
        parts = [
            f"{self.handled:,} of {self.confirmed:,} confirmed messages handled",
            f"{len(self.lost):,} lost",
            f"{self.repeated:,} repeated",
            f"{self.resent:,} sent twice",
            f"{len(self.reordered):,} reordered",
            f"{len(self.double_owned):,} double-owned",
            f"{len(self.early):,} acknowledged early",
            f"{len(self.phantoms):,} phantoms",
            f"{self.overlapping:,} overlapping",
        ]
        if self.aside:
            parts.append(f"{self.aside:,} put aside")
        examples = {
            "lost": self.lost,
            "phantoms": self.phantoms,
            "reordered": self.reordered,
            "double-owned": self.double_owned,
            "early": self.early,
        }
        shown = [f"{name}: {'; '.join(map(str, found[:5]))}" for name, found in examples.items() if found]
        return "\n  ".join([", ".join(parts), *shown])


def check(
    histories: Mapping[str, Sequence[Event]], key_of: Callable[[Identity], Key], *, answered: bool = True
) -> Verdict:
    """The verdict on a run, from the events of each member.

    ``key_of`` tells the key of a message. Unless acknowledgements are ``answered`` by the server, it is not
    known whether they were accepted, and double ownership cannot be seen.
    """
    evidence = _Evidence(key_of, answered)
    for member, events in histories.items():
        evidence.add(member, events)
    return evidence.verdict()


class _Evidence:
    def __init__(self, key_of: Callable[[Identity], Key], answered: bool) -> None:
        self._key_of = key_of
        self._answered = answered
        self._sent: Counter[Identity] = Counter()
        self._confirmed: set[Identity] = set()
        self._aside: dict[Identity, int] = {}
        self._handlings: list[Handling] = []
        self._partitions: dict[Key, int] = {}
        self._accepted: dict[int, list[Acknowledgement]] = defaultdict(list)
        self._passed: list[tuple[int, Identity]] = []
        """When a message was acknowledged that its process had been given and had not handled."""

    def add(self, member: str, events: Sequence[Event]) -> None:
        life, begin = 0, 0
        for index, event in enumerate((*events, ["life", 0, 0])):
            if event[0] == "life":
                if index > begin:
                    self._add_life((member, life), events[begin:index])
                life, begin = life + 1, index

    def _add_life(self, process: Process, events: Sequence[Event]) -> None:
        begun: dict[Identity, int] = {}
        given: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        """By receiver and partition: when each offset was last given."""
        offsets: dict[tuple[int, int], dict[Identity, int]] = defaultdict(dict)
        """By receiver and partition: the offset under which each message was last given."""
        unhandled: dict[tuple[int, int], dict[int, Identity]] = defaultdict(dict)
        places: dict[Identity, set[tuple[int, int, int]]] = defaultdict(set)
        calls: dict[int, tuple[int, int, list[tuple[int, int, int]]]] = {}
        passed: dict[int, list[tuple[tuple[int, int], int]]] = {}
        """By call the messages that it acknowledges and that are not handled."""
        for event in events:
            match event:
                case ["sending", _, producer, first, until]:
                    self._sent.update((producer, number) for number in range(first, until))
                case ["confirmed", _, producer, first, until]:
                    self._confirmed.update((producer, number) for number in range(first, until))
                case ["received", at, receiver, deliveries]:
                    for partition, offset, producer, number in deliveries:
                        message = producer, number
                        self._partitions[self._key_of(message)] = partition
                        place = receiver, partition
                        given[place][offset] = at
                        _void(unhandled[place], offsets[place].get(message, offset), offset)
                        offsets[place][message] = offset
                        unhandled[place][offset] = message
                        places[message].add((*place, offset))
                case ["begun", at, producer, number]:
                    begun[producer, number] = at
                case ["handled", at, producer, number]:
                    message = producer, number
                    self._handlings.append(Handling(begun.pop(message, at), at, message, process))
                    self._settle(places.pop(message, ()), unhandled)
                case ["aside", at, producer, number]:
                    self._aside.setdefault((producer, number), at)
                    self._settle(places.pop((producer, number), ()), unhandled)
                case ["acknowledging", at, call, receiver, marks]:
                    passed[call] = [
                        ((receiver, partition), each)
                        for partition, offset in marks
                        for each in unhandled[receiver, partition]
                        if each <= offset
                    ]
                    received = [
                        (partition, offset, given[receiver, partition].get(offset, at))
                        for partition, offset in marks
                    ]
                    calls[call] = at, receiver, received
                case ["acknowledged", at, call]:
                    called, receiver, received = calls.pop(call)
                    for place, offset in passed.pop(call):
                        if offset in unhandled[place]:
                            self._passed.append((called, unhandled[place].pop(offset)))
                    for partition, offset, when in received if self._answered else ():
                        self._accepted[partition].append(
                            Acknowledgement(called, at, (*process, receiver), offset, when)
                        )

    @staticmethod
    def _settle(
        places: Iterable[tuple[int, int, int]], unhandled: Mapping[tuple[int, int], dict[int, Identity]]
    ) -> None:
        for receiver, partition, offset in places:
            unhandled[receiver, partition].pop(offset, None)

    def verdict(self) -> Verdict:
        count = Counter(each.message for each in self._handlings)
        return Verdict(
            published=len(self._sent),
            confirmed=len(self._confirmed),
            handled=len(count),
            aside=len(self._aside),
            lost=sorted(self._confirmed - count.keys() - self._aside.keys()),
            phantoms=sorted(count.keys() - self._sent.keys()),
            repeated=sum(max(0, times - max(1, self._sent[message])) for message, times in count.items()),
            resent=sum(max(0, min(times, self._sent[message]) - 1) for message, times in count.items()),
            reordered=self._reordered(),
            double_owned=[
                f"partition {partition}: {first} and {second}"
                for partition, accepted in sorted(self._accepted.items())
                for first, second in stale_pairs(accepted)
            ],
            early=self._early(),
            overlapping=self._overlapping(),
        )

    def _reordered(self) -> list[Identity]:
        highest: dict[Key, int] = {}
        seen: set[Identity] = set()
        found = []
        for each in sorted(self._handlings, key=lambda each: each.handled):
            message = each.message
            if message in seen:
                continue
            seen.add(message)
            key, number = self._key_of(message), message[1]
            if number < highest.get(key, -1):
                found.append(message)
            else:
                highest[key] = number
        return found

    def _early(self) -> list[Identity]:
        """Others may have handled a message while its process had lost the partition."""
        settled = dict(self._aside)
        for each in self._handlings:
            settled[each.message] = min(each.handled, settled.get(each.message, each.handled))
        return sorted({message for at, message in self._passed if settled.get(message, at + 1) > at})

    def _overlapping(self) -> int:
        by_partition: dict[int, list[Handling]] = defaultdict(list)
        for each in self._handlings:
            partition = self._partitions.get(self._key_of(each.message))
            if partition is not None:
                by_partition[partition].append(each)
        return sum(map(_overlaps, by_partition.values()))


def _void(unhandled: dict[int, Identity], before: int, offset: int) -> None:
    """A message comes again under another offset, and so do all that came behind it.

    That is so where offsets count within a connection, and this is a new one.
    """
    for each in [each for each in unhandled if before <= each < offset]:
        del unhandled[each]


def stale_pairs(
    accepted: Sequence[Acknowledgement],
) -> list[tuple[Acknowledgement, Acknowledgement]]:
    """Acknowledgements of one partition that cannot both be those of its owner, at most one pair for each.

    The second was given its message before the first was called, and was called after the first returned.
    """
    by_return = sorted(accepted, key=lambda each: each.returned)
    returns = [each.returned for each in by_return]
    found = []
    for second in accepted:
        for first in reversed(by_return[: bisect_right(returns, second.called)]):
            if first.returned <= second.received:
                break
            if first.owner != second.owner and first.called > second.received:
                found.append((first, second))
                break
    return found


def _overlaps(handlings: Sequence[Handling]) -> int:
    """How many had not ended when another process began one."""
    found: set[Handling] = set()
    going_on: list[Handling] = []
    for each in sorted(handlings):
        going_on = [other for other in going_on if other.handled > each.begun]
        found.update(other for other in going_on if other.process != each.process)
        going_on.append(each)
    return len(found)
