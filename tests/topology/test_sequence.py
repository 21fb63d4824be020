"""Numbers of a sequence: received, doubled, missing."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dragoman.topology import sequence
from dragoman.topology.sequence import Sequence


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(60, 70))
def test_every_number_is_received_missing_or_a_duplicate(numbers: list[int], last: int) -> None:
    tracked = Sequence()
    tracked.reach(0)
    new = [number for number in numbers if tracked.take(number)]
    tracked.reach(last)
    assert sorted(new) == sorted(set(numbers))
    assert tracked.received == len(set(numbers))
    assert tracked.duplicates == len(numbers) - len(set(numbers))
    assert tracked.missing == last - len(set(numbers))


@given(
    st.lists(st.integers(1, 60) | st.integers(0, 2**64).map(lambda lie: -1 - lie), max_size=80),
    st.integers(60, 70),
)
def test_what_others_say_for_a_sender_is_undone_by_its_own_word(words: list[int], last: int) -> None:
    """Negative ones are lies."""
    tracked = Sequence()
    for word in [w for w in words if w < 0][:2]:
        tracked.reach(-1 - word)
    tracked.reach(0)
    for word in words:
        if word < 0:
            tracked.reach(-1 - word)
        else:
            tracked.take(word)
    tracked.reach(last)
    came = {word for word in words if word > 0}
    assert (tracked.received, tracked.missing) == (len(came), last - len(came))


def test_what_was_before_the_first_number_heard_does_not_count() -> None:
    tracked = Sequence()
    tracked.take(1000)
    tracked.take(1002)
    assert (tracked.received, tracked.missing) == (2, 1)


def test_more_gaps_than_are_remembered_stay_counted() -> None:
    tracked = Sequence()
    for number in range(0, 4 * sequence.MOST_GAPS, 2):
        tracked.take(number)
    assert tracked.missing == 2 * sequence.MOST_GAPS - 1


def test_any_order_gives_the_same_counts() -> None:
    numbers = list(range(1, 2000))
    random.Random(7).shuffle(numbers)
    tracked = Sequence()
    tracked.reach(0)
    assert all(tracked.take(number) for number in numbers)
    assert (tracked.received, tracked.missing, tracked.duplicates) == (1999, 0, 0)
