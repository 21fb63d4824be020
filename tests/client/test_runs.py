"""Messages as columns are the messages they stand for."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.message import Message, place_of
from dragoman.core.run import Alike, Listed, Runs, message_at, offset_of, runs_of

headers = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2).map(tuple)
messages = st.lists(
    st.builds(
        Message,
        st.sampled_from(["a", "b"]),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=3),
        headers,
        st.integers(0, 2),
        st.integers(0, 100),
    ),
    max_size=20,
)
places = st.integers(-25, 25) | st.slices(20)


@given(st.lists(st.binary(max_size=5), max_size=10), headers, st.none() | st.integers(0, 3), places)
def test_messages_that_are_alike(
    payloads: list[bytes], pairs: tuple[tuple[str, bytes], ...], partition: int | None, at: int | slice
) -> None:
    alike = Alike("c", payloads, pairs, partition)
    plain = [Message("c", each, None, pairs, partition) for each in payloads]
    assert list(alike) == plain
    assert len(alike) == len(plain)
    assert asked(alike, at) == asked(plain, at)


@given(messages, places)
def test_runs_are_the_messages_they_were_made_of(given: list[Message], at: int | slice) -> None:
    runs = list(runs_of(given))
    assert [message for run in runs for message in run.messages] == given
    for run in runs:
        assert {place_of(message) for message in run} == {(run.channel, run.partition)}
        assert run.payloads == [message.payload for message in run]
        assert [offset_of((run, place)) for place in range(len(run))] == [each.offset for each in run]
        assert [message_at((run, place)) for place in range(len(run))] == list(run)
        assert run.plain == all(each.payload is not None and not each.headers for each in run)
    together = Runs(runs)
    assert runs_of(together) is runs
    assert list(together) == given
    assert len(together) == len(given)
    assert asked(together, at) == asked(given, at)


@given(messages)
def test_a_run_ends_where_the_partition_changes(given: list[Message]) -> None:
    expected = [place for place, _ in groupby(given, place_of)]
    assert [(run.channel, run.partition) for run in runs_of(given)] == expected


def test_a_run_with_a_tombstone_is_not_plain() -> None:
    assert not Listed([Message("c", b"1", offset=0), Message("c", None, offset=1)]).plain


def asked(sequence: object, at: int | slice) -> object:
    try:
        return sequence[at]  # type: ignore[index]
    except IndexError:
        return IndexError
