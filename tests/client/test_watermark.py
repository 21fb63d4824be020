"""Nothing is acknowledged past an unfinished message, in whatever order messages come and finish."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.client.watermark import Watermark
from dragoman.core.message import Message
from dragoman.core.run import Listed, Run, offset_of


def run(*offsets: int) -> Run:
    return Listed([Message("c", b"", partition=0, offset=offset) for offset in offsets])


def finish_run(watermark: Watermark, *offsets: int) -> int:
    return watermark.finish_run(run(*offsets), range(len(offsets)))


def taken(*offsets: int) -> Watermark:
    watermark = Watermark()
    for offset in offsets:
        watermark.take(offset)
    return watermark


def finish(watermark: Watermark, *offsets: int) -> None:
    for offset in offsets:
        watermark.finish((run(offset), 0))


def collected(watermark: Watermark) -> int | None:
    mark = watermark.collect()
    return None if mark is None else offset_of(mark)


def test_the_mark_follows_messages_that_finish_in_order() -> None:
    watermark = taken(0, 1, 2)
    finish(watermark, 0, 1)
    assert collected(watermark) == 1
    assert collected(watermark) is None


def test_a_message_that_finishes_early_waits_for_those_before_it() -> None:
    watermark = taken(0, 1, 2)
    finish(watermark, 2, 1)
    assert collected(watermark) is None
    finish(watermark, 0)
    assert collected(watermark) == 2


def test_a_run_that_was_handled_out_of_order_does_not_take_its_neighbour_along() -> None:
    watermark = taken(3, 4, 5, 9)
    assert finish_run(watermark, 3, 9, 5) == 3
    assert collected(watermark) == 3
    assert watermark.holds(4)


def test_a_message_that_was_handled_twice_does_not_stand_for_its_neighbour() -> None:
    watermark = taken(3, 4, 5)
    assert finish_run(watermark, 3, 3, 5) == 2
    assert collected(watermark) == 3
    assert watermark.holds(4)
    assert finish_run(watermark, 4) == 1
    assert collected(watermark) == 5


def test_a_run_may_hold_messages_that_were_taken_already() -> None:
    watermark = taken(3, 4)
    assert not watermark.take_run([4, 5])
    assert not watermark.holds(5)
    assert watermark.take_run([5, 8])
    assert finish_run(watermark, 3, 4, 5, 8) == 4
    assert collected(watermark) == 8


def test_offsets_may_have_gaps() -> None:
    watermark = taken(3, 7, 20)
    finish(watermark, 7, 3)
    assert collected(watermark) == 7


def test_a_message_that_comes_back_late_holds_back_a_mark_beyond_it() -> None:
    watermark = taken(4, 5, 6)
    finish(watermark, 4, 5)
    watermark.take(2)
    assert collected(watermark) is None
    finish(watermark, 2)
    assert collected(watermark) == 5


def test_a_message_delivered_twice_is_taken_once() -> None:
    watermark = taken(0, 1)
    assert not watermark.take(0)
    finish(watermark, 1)
    assert not watermark.take(1)


def test_what_was_given_back_is_not_acknowledged_by_a_late_finish() -> None:
    watermark = taken(0, 1, 2, 3)
    finish(watermark, 2)
    assert watermark.cut(1) == 2
    assert not watermark.finish((run(3), 0))
    finish(watermark, 0)
    assert collected(watermark) == 0
    assert watermark.take(1)


def test_those_after_a_revoked_message_do_not_wait_for_it() -> None:
    watermark = taken(0, 1)
    finish(watermark, 1)
    assert watermark.forget(0)
    assert collected(watermark) == 1


def test_an_acknowledgement_that_failed_is_due_again() -> None:
    watermark = taken(0, 1)
    finish(watermark, 0)
    mark = watermark.collect()
    assert mark is not None
    watermark.restore(mark)
    assert collected(watermark) == 0


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "take run", "finish", "finish run", "cut", "forget", "collect"]),
            st.integers(0, 12),
        ),
        max_size=60,
    )
)
def test_no_mark_ever_passes_an_unfinished_message(steps: list[tuple[str, int]]) -> None:
    """Compared with the plain definition: a set of unfinished and a set of finished offsets."""
    watermark = Watermark()
    unfinished: set[int] = set()
    finished: set[int] = set()
    for step, offset in steps:
        some = list(range(offset, min(offset + 4, 13)))
        match step:
            case "take run":
                if watermark.take_run(some):
                    assert not unfinished & set(some)
                    unfinished |= set(some)
            case "finish run":
                # As a lane does that met the last one first, or the first one twice: it had come again.
                handled = ([some[-1], *some[:-1]], some, [some[0], some[0], *some[2:]])[offset % 3]
                known = unfinished & set(handled)
                assert finish_run(watermark, *handled) == len(known)
                unfinished -= known
                finished |= known
            case "take":
                if watermark.take(offset):
                    unfinished.add(offset)
            case "finish":
                if watermark.finish((run(offset), 0)):
                    unfinished.remove(offset)
                    finished.add(offset)
            case "cut":
                gone = {each for each in unfinished if each >= offset}
                assert watermark.cut(offset) == len(gone)
                unfinished -= gone
                finished = {each for each in finished if each < offset}
            case "forget":
                assert watermark.forget(offset) == (offset in unfinished)
                unfinished.discard(offset)
            case "collect":
                mark = collected(watermark)
                lowest = min(unfinished, default=100)
                assert mark is None or (mark in finished and mark < lowest)
        assert len(watermark) == len(unfinished)
        assert all(watermark.holds(each) for each in unfinished)


@settings(max_examples=100)
@given(st.permutations(range(12)), st.permutations(range(12)))
def test_once_all_are_finished_the_last_one_is_the_mark(arrivals: list[int], endings: list[int]) -> None:
    watermark = taken(*arrivals)
    finish(watermark, *endings)
    assert collected(watermark) == 11
    assert len(watermark) == 0
