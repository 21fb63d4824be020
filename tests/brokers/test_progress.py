"""A group's progress in one partition: nothing is lost, nothing is done before it is acknowledged."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.core.progress import Progress


class ProgressMachine(RuleBasedStateMachine):
    """Beside the progress, a plain model: which messages are done, and which the owner holds."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress(0)
        self.end = 0
        self.done: set[int] = set()
        self.held: set[int] = set()
        self.tried: dict[int, int] = {}
        self.now = 0.0

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self.end += count

    @rule(limit=st.integers(1, 6))
    def deliver(self, limit: int) -> None:
        progress = self.progress
        progress.step_over()
        given = progress.take_due(self.now, limit).returned
        cursor = progress.cursor
        while len(given) < limit and cursor < self.end:
            if not progress.skips(cursor):
                given.append(cursor)
            cursor += 1
        progress.cursor = cursor
        for offset in given:
            assert offset not in self.done and offset not in self.held
            assert progress.attempt(offset) == 1 + self.tried.get(offset, 0)
            self.held.add(offset)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def acknowledge_a_finished_front(self, data: st.DataObject) -> None:
        """As the loop does it: one message whose predecessors in flight are finished, too."""
        offset = data.draw(st.sampled_from(sorted(self.held)))
        self.progress.acknowledge(offset)
        finished = {one for one in self.held if one <= offset}
        self.held -= finished
        self.done |= finished

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.one_of(st.none(), st.floats(0.1, 5.0)))
    def release(self, data: st.DataObject, delay: float | None) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.held)), min_size=1, max_size=3))
        self.progress.release(chosen, None if delay is None else self.now + delay)
        for offset in chosen:
            self.tried[offset] = self.tried.get(offset, 0) + 1
        self.held = {one for one in self.held if one < min(chosen)}

    @rule()
    def abandon(self) -> None:
        self.progress.abandon()
        for offset in self.held:
            self.tried[offset] = self.tried.get(offset, 0) + 1
        self.held.clear()

    @rule(seconds=st.floats(0.1, 3.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def held_is_in_flight_and_the_rest_is_not(self) -> None:
        for offset in range(self.end):
            assert self.progress.in_flight(offset) == (offset in self.held)
            given_back = offset not in self.held and offset not in self.done
            assert self.progress.given_back(offset) == given_back

    @invariant()
    def nothing_open_is_committed(self) -> None:
        open_now = set(range(self.end)) - self.done
        assert self.progress.committed <= min(open_now, default=self.end)

    def teardown(self) -> None:
        self.abandon()
        self.now += 100.0
        while len(self.done) < self.end:
            before = len(self.done)
            self.deliver(10)
            self.progress.acknowledge(max(self.held))
            self.done |= self.held
            self.held.clear()
            assert len(self.done) > before


TestProgress = ProgressMachine.TestCase
TestProgress.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_one_that_is_due_before_the_flow_comes_to_it_waits_in_its_place() -> None:
    progress = Progress(0)
    progress.cursor = 2
    progress.release([1], due=1.0)
    progress.abandon()
    assert progress.take_due(2.0, 1).returned == []
    assert progress.attempt(1) == 2
    progress.cursor = 1
    assert progress.given_back(1)


def test_retention_forgets_what_is_gone() -> None:
    progress = Progress(0)
    progress.cursor = 10
    progress.release([2, 7], due=5.0)
    progress.forget_before(5)
    assert progress.position == 5
    assert progress.take_due(10.0, 10).rejoined == [7]
