"""The checker finds what is wrong in a history, and nothing in a history that is right."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.checker import Verdict, check
from tests.soak.history import Event, Identity
from tests.soak.worker import KEYS, key_of

Histories = dict[str, list[Event]]


def verdict(*lives: list[Event], **members: list[Event]) -> Verdict:
    histories = {f"member-{number}": [["life", 0, 1], *events] for number, events in enumerate(lives)}
    return check(histories | members, key_of)


def published(*messages: Identity) -> list[Event]:
    """By one process, one after the other, before all that is received."""
    events: list[Event] = []
    for producer, number in messages:
        events += [
            ["sending", 0, producer, number, number + 1],
            ["confirmed", 0, producer, number, number + 1],
        ]
    return events


def handled(at: int, *messages: Identity) -> list[Event]:
    """One message after the other, each in two moments."""
    events: list[Event] = []
    for index, message in enumerate(messages):
        events += [["begun", at + 2 * index, *message], ["handled", at + 2 * index + 1, *message]]
    return events


def acknowledged(call: int, called: int, returned: int, offset: int, receiver: int = 0) -> list[Event]:
    return [
        ["acknowledging", called, call, receiver, [[0, offset]]],
        ["acknowledged", returned, call],
    ]


def received(at: int, *offsets: int, receiver: int = 0) -> list[Event]:
    """Messages of producer 0 in partition 0; their numbers are their offsets."""
    return [["received", at, receiver, [[0, offset, 0, offset] for offset in offsets]]]


def test_a_message_that_is_handled_once_is_all_right() -> None:
    found = verdict(published((0, 0)), [*received(1, 0), *handled(2, (0, 0)), *acknowledged(0, 4, 5, 0)])
    assert found == Verdict(published=1, confirmed=1, handled=1)
    assert found.is_sound


def test_a_confirmed_message_that_nobody_handled_is_lost() -> None:
    found = verdict(published((0, 0), (0, 1)), handled(1, (0, 1)))
    assert found.lost == [(0, 0)]
    assert not found.is_sound


def test_a_message_that_was_not_confirmed_is_not_lost() -> None:
    assert verdict([["sending", 0, 0, 0, 5]]).lost == []


def test_a_dead_letter_is_not_lost() -> None:
    found = verdict(published((0, 0)), [*received(1, 0), ["aside", 2, 0, 0], *acknowledged(0, 3, 4, 0)])
    assert (found.lost, found.aside, found.early) == ([], 1, [])


def test_a_message_that_nobody_published_is_a_phantom() -> None:
    found = verdict(published((0, 0)), handled(1, (0, 0), (3, 7)))
    assert found.phantoms == [(3, 7)]


def test_each_further_handling_is_a_repetition() -> None:
    found = verdict(published((0, 0)), handled(1, (0, 0), (0, 0)), handled(9, (0, 0)))
    assert (found.handled, found.repeated, found.is_sound) == (1, 2, True)


def test_what_was_sent_twice_may_be_handled_twice() -> None:
    sent = [["sending", 0, 0, 0, 1], ["sending", 1, 0, 0, 1], ["confirmed", 2, 0, 0, 1]]
    found = verdict(sent, handled(3, (0, 0), (0, 0), (0, 0)))
    assert (found.resent, found.repeated) == (1, 1)


def test_the_first_handlings_of_a_key_are_in_order() -> None:
    messages = [(0, 0), (0, KEYS), (0, 2 * KEYS), (0, 1)]
    found = verdict(published(*messages), handled(1, (0, 0), (0, 2 * KEYS), (0, KEYS), (0, 1)))
    assert found.reordered == [(0, KEYS)]


def test_a_repetition_is_no_disorder() -> None:
    assert not verdict(published((0, 0), (0, KEYS)), handled(1, (0, 0), (0, KEYS), (0, 0))).reordered


def test_the_order_is_told_over_several_members() -> None:
    found = verdict(published((0, 0), (0, KEYS)), handled(9, (0, 0)), handled(1, (0, KEYS)))
    assert found.reordered == [(0, 0)]


def test_an_acknowledgement_before_the_handling_is_early() -> None:
    found = verdict(
        published((0, 0), (0, 1)),
        [*received(1, 0, 1), *handled(2, (0, 1)), *acknowledged(0, 4, 5, 1), *handled(6, (0, 0))],
    )
    assert found.early == [(0, 0)]


def test_an_early_acknowledgement_that_is_refused_does_no_harm() -> None:
    """A member drops what it has lost, and acknowledges what it had handled behind it."""
    refused: list[Event] = [["acknowledging", 4, 0, 0, [[0, 1]]], ["refused", 5, 0, "broker.revoked"]]
    found = verdict(published((0, 0), (0, 1)), [*received(1, 0, 1), *handled(2, (0, 1)), *refused])
    assert found.early == []


def test_offsets_may_begin_anew_with_each_connection() -> None:
    begun = [*received(1, 0, 1), *handled(2, (0, 0))]
    again: list[Event] = [["received", 4, 0, [[0, 2, 0, 0]]], ["received", 5, 0, [[0, 3, 0, 1]]]]
    rest = [*handled(6, (0, 0)), *acknowledged(0, 8, 9, 2), *handled(10, (0, 1))]
    assert verdict(published((0, 0), (0, 1)), [*begun, *again, *rest]).early == []


def test_what_another_member_has_handled_may_be_passed() -> None:
    """It had lost the partition meanwhile, and got it again behind this message."""
    found = verdict(
        published((0, 0), (0, 1)),
        [*received(1, 0), *received(5, 1), *handled(6, (0, 1)), *acknowledged(0, 8, 9, 1)],
        [*received(2, 0), *handled(3, (0, 0)), *acknowledged(0, 4, 5, 0)],
    )
    assert found.early == []


def test_the_acknowledgement_of_a_former_owner_must_not_be_accepted() -> None:
    stale = [*received(1, 0), *handled(2, (0, 0)), *acknowledged(0, 9, 10, 0)]
    owner = [*received(4, 0), *handled(5, (0, 0)), *acknowledged(0, 7, 8, 0)]
    found = verdict(published((0, 0)), stale, owner)
    assert len(found.double_owned) == 1
    assert "member-1" in found.double_owned[0]
    assert "member-2" in found.double_owned[0]


def test_where_acknowledgements_are_not_answered_nobody_sees_whose_were_accepted() -> None:
    one = [["life", 0, 1], *received(1, 0), *acknowledged(0, 9, 10, 0)]
    other = [["life", 0, 1], *received(4, 0), *acknowledged(0, 7, 8, 0)]
    histories = {"one": one, "other": other}
    assert check(histories, key_of).double_owned
    assert not check(histories, key_of, answered=False).double_owned


def test_that_of_a_former_owner_may_be_refused() -> None:
    stale = [
        *received(1, 0),
        *handled(2, (0, 0)),
        ["acknowledging", 9, 0, 0, [[0, 0]]],
        ["refused", 10, 0, "broker.revoked"],
    ]
    owner = [*received(4, 0), *handled(5, (0, 0)), *acknowledged(0, 7, 8, 0)]
    assert verdict(published((0, 0)), stale, owner).double_owned == []


def test_an_owner_may_come_back_and_acknowledge_what_it_was_given_then() -> None:
    first = [*received(1, 0), *acknowledged(0, 2, 3, 0), *received(8, 2), *acknowledged(1, 9, 10, 2)]
    second = [*received(4, 1), *acknowledged(0, 5, 6, 1)]
    assert verdict(published((0, 0), (0, 1), (0, 2)), first, second).double_owned == []


def test_acknowledgements_at_one_time_prove_nothing() -> None:
    one = [*received(1, 0), *acknowledged(0, 5, 9, 0)]
    other = [*received(2, 0), *acknowledged(0, 6, 8, 0)]
    assert verdict(published((0, 0)), one, other).double_owned == []


def test_two_receivers_of_one_process_are_two_owners() -> None:
    events = [
        *received(1, 0),
        *received(4, 0, receiver=1),
        *acknowledged(0, 7, 8, 0, receiver=1),
        *acknowledged(1, 9, 10, 0),
    ]
    assert len(verdict(published((0, 0)), events).double_owned) == 1


def test_a_handling_that_overlaps_with_those_of_another_member_counts_once() -> None:
    first = [*received(1, 0), ["begun", 2, 0, 0], ["handled", 6, 0, 0]]
    second = [*received(1, 1, 3), *handled(3, (0, 1)), ["begun", 5, 0, 3], ["handled", 7, 0, 3]]
    elsewhere = [["received", 1, 0, [[3, 5, 0, 2]]], ["begun", 5, 0, 2], ["handled", 7, 0, 2]]
    assert verdict(published((0, 0), (0, 1), (0, 2), (0, 3)), first, second, elsewhere).overlapping == 1


def test_what_was_begun_and_not_ended_is_not_handled() -> None:
    """Its process was killed in the middle of it."""
    killed = [["life", 0, 1], ["begun", 1, 0, 0], ["life", 5, 2], *handled(6, (0, 0))]
    found = verdict(published((0, 0)), consumer=killed)
    assert (found.handled, found.repeated) == (1, 0)


@dataclass
class Model:
    """A broker with one partition that does everything right, and two members, at random."""

    random: random.Random
    count: int
    log: list[Identity] = field(default_factory=list)
    committed: int = 0
    owner: int = 0
    epoch: int = 0
    now: int = 0
    calls: int = 0
    histories: Histories = field(
        default_factory=lambda: {name: [["life", 0, 1]] for name in ("producer", "a", "b")}
    )
    held: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By member the epoch in which it was given messages, the next to handle and the end of them."""
    handled: set[int] = field(default_factory=set)
    """The members that have handled one of those that they hold."""

    def run(self) -> Histories:
        while self.committed < self.count:
            member = self.random.randrange(2)
            self.random.choice((self.publish, self.move, self.receive, self.handle, self.acknowledge))(member)
        return self.histories

    def write(self, member: int, kind: str, *more: Any) -> None:
        self.now += 1
        self.histories["ab"[member]].append([kind, self.now, *more])

    def publish(self, member: int) -> None:
        until = min(self.count, len(self.log) + self.random.randint(1, 4))
        first = len(self.log)
        if first < until:
            self.now += 1
            self.histories["producer"] += [
                ["sending", self.now, 0, first, until],
                ["confirmed", self.now, 0, first, until],
            ]
            self.log += [(0, number) for number in range(first, until)]

    def move(self, member: int) -> None:
        if self.random.random() < 0.3 and member != self.owner:
            self.owner, self.epoch = member, self.epoch + 1

    def receive(self, member: int) -> None:
        if member == self.owner and self.held.get(member, (-1, 0, 0))[0] != self.epoch:
            end = min(len(self.log), self.committed + 4)
            if self.committed < end:
                self.held[member] = self.epoch, self.committed, end
                self.handled.discard(member)
                offsets = range(self.committed, end)
                self.write(member, "received", 0, [[0, offset, *self.log[offset]] for offset in offsets])

    def handle(self, member: int) -> None:
        """Also by a former owner, who does not know it."""
        epoch, next_, end = self.held.get(member, (0, 0, 0))
        if next_ < end:
            self.write(member, "begun", *self.log[next_])
            self.write(member, "handled", *self.log[next_])
            self.held[member] = epoch, next_ + 1, end
            self.handled.add(member)

    def acknowledge(self, member: int) -> None:
        epoch, next_, end = self.held.get(member, (0, 0, 0))
        if member not in self.handled:
            return
        self.calls += 1
        self.write(member, "acknowledging", self.calls, 0, [[0, next_ - 1]])
        if (member, epoch) != (self.owner, self.epoch):
            self.write(member, "refused", self.calls, "broker.revoked")
            return
        self.committed = max(self.committed, next_)
        self.write(member, "acknowledged", self.calls)
        if next_ == end:
            self.epoch += 1


@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
def test_a_broker_that_does_everything_right_is_found_right(seed: int, count: int) -> None:
    found = check(Model(random.Random(seed), count).run(), key_of)
    assert found.is_sound, found
    assert (found.confirmed, found.handled, found.resent) == (count, count, 0)


@given(seed=st.integers(0, 2**32), data=st.data())
def test_every_message_that_is_taken_out_of_a_history_is_found_lost(seed: int, data: st.DataObject) -> None:
    histories = Model(random.Random(seed), 20).run()
    number = data.draw(st.integers(0, 19))
    broken = {
        name: [event for event in events if event[0] not in ("begun", "handled") or event[3] != number]
        for name, events in histories.items()
    }
    found = check(broken, key_of)
    assert found.lost == [(0, number)]
    assert found.early == [(0, number)]


@given(seed=st.integers(0, 2**32), number=st.integers(0, 19))
def test_every_handling_that_is_moved_behind_later_ones_is_found(seed: int, number: int) -> None:
    histories = Model(random.Random(seed), KEYS + 20).run()
    broken = copy.deepcopy(histories)
    for events in broken.values():
        for event in events:
            if event[0] in ("begun", "handled") and event[3] == number:
                event[1] += 10**9
    assert check(broken, key_of).reordered == [(0, number)]


@given(seed=st.integers(0, 2**32))
def test_a_former_owner_whose_acknowledgement_is_accepted_is_found(seed: int) -> None:
    """If the new owner had one accepted before."""
    model = Model(random.Random(seed), 20)
    histories = model.run()
    late = model.now + 1
    # Member a was given a message at the beginning, owns nothing since, and comes at the very end.
    begin = ["received", 0, 9, [[0, 0, 0, 0]]]
    histories["late"] = [
        ["life", 0, 1],
        begin,
        *handled(late, (0, 0)),
        ["acknowledging", late + 2, 1, 9, [[0, 0]]],
        ["acknowledged", late + 3, 1],
    ]
    found = check(histories, key_of)
    assert len(found.double_owned) == 1
    assert "late" in found.double_owned[0]


@pytest.mark.parametrize("found", ["lost", "phantoms", "reordered", "double_owned", "early"])
def test_each_broken_promise_makes_a_verdict_unsound_and_is_shown(found: str) -> None:
    broken = Verdict(**{found: ["the culprit"]})  # type: ignore[arg-type]
    assert not broken.is_sound
    assert "the culprit" in str(broken)
