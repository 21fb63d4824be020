"""What a member holds of a partition, compared with the plain definition: lists of offsets."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message as Raw
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.adapters.kafka.holding import Holding
from dragoman.adapters.kafka.reading import Fetched
from dragoman.core.message import Message
from dragoman.core.run import Run


def fetched(offsets: Sequence[int], headers: bool = False) -> Fetched:
    pairs = [("name", b"value")] if headers else None
    raws = [
        Raw(topic="c", value=b"%d" % offset, key=b"k", partition=0, offset=offset, headers=pairs)
        for offset in offsets
    ]
    return Fetched.of(("c", 0), raws)


def test_messages_are_what_the_driver_gave() -> None:
    run = fetched([3, 4], headers=True)
    expected = [
        Message("c", b"3", b"k", (("name", b"value"),), 0, 3, 0),
        Message("c", b"4", b"k", (("name", b"value"),), 0, 4, 0),
    ]
    assert [run.one(0), run.one(1)] == expected
    assert list(run.messages) == expected
    assert run.one(1) == expected[1]
    assert not run.plain


def test_a_run_with_a_tombstone_is_not_plain() -> None:
    raws = [Raw(topic="c", value=value, partition=0, offset=at) for at, value in enumerate((b"1", None))]
    assert not Fetched.of(("c", 0), raws).plain


def test_the_size_of_a_run_counts_payloads_keys_and_headers() -> None:
    raws = [
        Raw(
            topic="c",
            value=b"12345",
            key=b"key",
            partition=0,
            offset=0,
            headers=[("name", b"v"), ("x", None)],
        ),
        Raw(topic="c", value=None, key=b"k", partition=0, offset=1),
        Raw(topic="c", value=b"", partition=0, offset=2),
    ]
    run = Fetched.of(("c", 0), raws)
    assert run.size == 5 + 3 + 4 + 1 + 1 + 1
    assert [part.size for part in run.split(1)] == [14, 1]


def test_a_part_of_a_run_is_a_run() -> None:
    first, run = fetched([3, 4, 8]).split(1)
    assert (first.offsets, first.payloads) == ([3], [b"3"])
    assert (run.offsets, run.payloads, run.plain) == ([4, 8], [b"4", b"8"], True)
    assert [each.offset for each in run] == [4, 8]


class HoldingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.holding = Holding.starting(0)
        self.queue: list[int] = []
        self.flying: list[int] = []
        self.attempts: dict[int, int] = {}
        self.end = 0
        self.done = 0

    @rule(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=5))
    def keep(self, gaps: list[int]) -> None:
        """Offsets may be missing: a compacted channel has gaps."""
        offsets = []
        for gap in gaps:
            self.end += gap
            offsets.append(self.end)
        self.holding.keep(fetched(offsets))
        self.queue += offsets
        assert self.holding.next == self.end + 1

    @rule(limit=st.integers(1, 7))
    def deliver(self, limit: int) -> None:
        runs: Sequence[Run] = self.holding.deliver(limit)
        taken, self.queue = self.queue[:limit], self.queue[limit:]
        self.flying += taken
        delivered = [message for run in runs for message in run.messages]
        assert [message.offset for message in delivered] == taken
        assert [message.attempt for message in delivered] == [self.attempts.get(one, 0) + 1 for one in taken]

    @precondition(lambda self: self.flying)
    @rule(pick=st.integers(0, 20))
    def finish(self, pick: int) -> None:
        offset = self.flying[pick % len(self.flying)]
        self.holding.finish(offset)
        self.done = offset + 1
        self.flying = [one for one in self.flying if one > offset]
        self.attempts = {one: count for one, count in self.attempts.items() if one > offset}

    @precondition(lambda self: self.flying)
    @rule(picks=st.sets(st.integers(0, 20), min_size=1, max_size=3))
    def give_back(self, picks: set[int]) -> None:
        offsets = {self.flying[pick % len(self.flying)] for pick in picks}
        self.holding.give_back(sorted(offsets))
        for offset in offsets:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        first = min(offsets)
        self.queue = [one for one in self.flying if one >= first] + self.queue
        self.flying = [one for one in self.flying if one < first]

    @rule(messages=st.integers(1, 9), size=st.integers(1, 60))
    def trim(self, messages: int, size: int) -> None:
        self.holding.trim(messages, size)
        kept = self.holding.waiting
        dropped, self.queue = self.queue[kept:], self.queue[:kept]
        assert kept <= 1 or self.holding.filled(messages, size) <= 1
        assert self.holding.full == (kept > 0)
        if dropped:
            self.end = self.queue[-1]
            assert self.holding.next == self.end + 1

    @invariant()
    def counts_are_right(self) -> None:
        assert self.holding.waiting == len(self.queue)
        assert self.holding.waiting_bytes == sum(len(f"{offset}k") for offset in self.queue)
        assert self.holding.done == self.done
        assert self.holding.busy or not self.flying


TestHolding = HoldingMachine.TestCase
TestHolding.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
