"""Datagrams and frames: what is written is read, and nothing else makes trouble."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.sep.assembling import Assembly
from dragoman.gateway.sep.datagram import Datagram, Type, accept_head, init_head, read_datagram, short_head
from dragoman.gateway.sep.frames import (
    Ack,
    Close,
    Cookie,
    Frame,
    MalformedFrames,
    Part,
    Refuse,
    Time,
    pack_frame,
    read_frames,
)
from dragoman.gateway.sep.message import Damaged, parts_of, read_reply, read_request
from dragoman.gateway.sep.replay import Finished, NumberWindow, Openings

u16, u32 = st.integers(1, 2**16 - 1), st.integers(0, 2**32 - 1)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Time, st.integers(0, 2**64 - 1)),
    u16.flatmap(lambda of: st.builds(Part, u32, st.integers(0, of - 1), st.just(of), st.binary(max_size=50))),
    st.integers(0, 100).flatmap(
        lambda of: st.builds(Ack, u32, st.just(of), st.binary(min_size=(of + 7) // 8, max_size=(of + 7) // 8))
    ),
    st.builds(Cookie, st.binary(max_size=64)),
    st.builds(Refuse, u32, st.integers(0, 255)),
    st.just(Close()),
)


@given(st.lists(frames, max_size=8), st.integers(0, 20))
def test_frames_are_read_as_they_were_written_with_padding_behind(given: list[Frame], padding: int) -> None:
    assert read_frames(b"".join(map(pack_frame, given)) + bytes(padding)) == given


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    try:
        found = read_frames(data)
    except MalformedFrames:
        return
    assert b"".join(map(pack_frame, found)) == data[: len(b"".join(map(pack_frame, found)))]


@given(st.binary(max_size=1300))
def test_any_bytes_are_a_datagram_or_nothing(data: bytes) -> None:
    found = read_datagram(data)
    assert found is None or found.head + found.sealed == data


@given(st.binary(min_size=8, max_size=8), u32, st.sampled_from([1, 2]), st.binary(max_size=40))
def test_headers_are_read_as_they_were_written(
    session: bytes, number: int, suite: int, cookie: bytes
) -> None:
    public, ciphertext, sealed = bytes(range(32)), bytes(1088 if suite == 2 else 0), bytes(17)
    head = init_head(session, number, suite, public, ciphertext, cookie)
    if len(head) + len(sealed) <= 1200:
        read = read_datagram(head + sealed)
        assert read == Datagram(Type.INIT, session, number, head, sealed, suite, public, ciphertext, cookie)
    head = accept_head(session, number, public)
    assert read_datagram(head + sealed) == Datagram(Type.ACCEPT, session, number, head, sealed, public=public)
    head = short_head(Type.DATA, session, number)
    assert read_datagram(head + sealed) == Datagram(Type.DATA, session, number, head, sealed)


@given(st.binary(max_size=5000), st.randoms(use_true_random=False))
def test_parts_in_any_order_make_the_message_again(body: bytes, chance: object) -> None:
    message = body + b"."
    parts = [Part(7, at, len(parts_of(message)), data) for at, data in enumerate(parts_of(message))]
    chance.shuffle(parts)  # type: ignore[attr-defined]
    assembly = Assembly(7, len(parts))
    for part in parts:
        assert not assembly.is_whole()
        assert assembly.add(part)
        assert not assembly.add(part)
    assert assembly.is_whole()
    assert assembly.message() == message


@given(st.lists(st.integers(0, 10_000), max_size=200))
def test_a_number_is_taken_once_and_an_old_one_never(numbers: list[int]) -> None:
    window, seen = NumberWindow(), set[int]()
    for number in numbers:
        highest = max(seen, default=-1)
        expected = number not in seen and number > highest - 4096
        assert window.take(number) == expected
        seen.add(number)


def test_numbers_far_apart_cost_no_memory() -> None:
    window = NumberWindow()
    assert window.take(2**32 - 1)
    assert not window.take(0)
    assert window.take(2**32 - 2)


@given(st.permutations(range(60)), st.integers(0, 60))
def test_a_finished_stream_stays_finished_in_whatever_order_they_end(order: list[int], ended: int) -> None:
    finished = Finished()
    for stream in order[:ended]:
        finished.add(stream)
    assert all((stream in finished) == (stream in order[:ended]) for stream in range(70))


def test_what_is_known_of_finished_streams_is_bounded() -> None:
    finished = Finished()
    for stream in range(1, 20_000, 2):
        finished.add(stream)
    assert len(finished._above) <= 1024
    assert 1 in finished
    assert 19_999 in finished
    assert 20_001 not in finished


@given(st.binary(max_size=80))
def test_bytes_without_their_digest_are_no_message(data: bytes) -> None:
    for read in (read_request, read_reply):
        try:
            read(data)
        except Damaged:
            continue
        raise AssertionError("a digest was right by chance")


def test_an_opening_is_taken_once_also_when_the_memory_for_them_is_full() -> None:
    openings = Openings(window=10, limit=2)
    assert openings.take(b"a", 100.0, 100.0)
    assert not openings.take(b"a", 100.0, 101.0)
    assert openings.take(b"b", 101.0, 101.0)
    assert openings.take(b"c", 102.0, 102.0)
    assert not openings.timely(100.0, 103.0), "a was forgotten, so nothing as old as it is taken"
    assert openings.timely(101.5, 103.0)
    assert not openings.timely(80.0, 103.0)
    assert not openings.timely(120.0, 103.0)
