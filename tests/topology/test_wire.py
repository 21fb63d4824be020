"""What goes over the wire: envelopes, parcels, datagrams."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import EncodeError, FrameError
from dragoman.topology.admins.multicast.assembly import MOST_PARTIAL, Assembly
from dragoman.topology.admins.multicast.course import LATE_MS, SIGNED_NEAR, SignedCourse, Verdict
from dragoman.topology.admins.multicast.datagram import (
    DATA,
    HEAD,
    MAGIC,
    SEAL,
    VERSION,
    Datagram,
    parse,
    pieces,
    single,
)
from dragoman.topology.admins.multicast.seals import Sealed, Sealer, read_key
from dragoman.topology.envelope import unwrap, wrap
from dragoman.topology.parcel import Parcel, headers_of, parcel_of

names = st.text(max_size=20)
headers = st.lists(st.tuples(names, st.binary(max_size=40)), max_size=5).map(tuple)


@given(headers, st.binary(max_size=200))
def test_an_envelope_gives_back_what_was_put_in(pairs: tuple[tuple[str, bytes], ...], payload: bytes) -> None:
    assert unwrap(wrap(pairs, payload)) == (pairs, payload)


@given(st.binary(max_size=100))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        pairs, payload = unwrap(data)
        assert wrap(pairs, payload) == data


def test_a_header_that_is_too_long_is_refused() -> None:
    with pytest.raises(EncodeError):
        wrap((("x", b"1" * 70_000),), b"")


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.none() | st.text(min_size=1, max_size=9))
def test_a_parcel_survives_its_headers(frames: list[bytes], scope: str | None) -> None:
    parts = tuple(map(len, frames)) if len(frames) > 1 else ()
    parcel = Parcel(b"".join(frames), "origin-1", 7, 1_700_000_000_000, scope, parts, (("trace", b"1"),))
    found = parcel_of(parcel.payload, headers_of(parcel))
    assert found == parcel
    assert found.frames == frames


@pytest.mark.parametrize("name", ["dragoman-sequence", "dragoman-sent-at"])
@pytest.mark.parametrize("number", [b"-1", b"x", b"9" * 30, b"9" * 5000])
def test_numbers_that_no_sender_has_are_refused(name: str, number: bytes) -> None:
    with pytest.raises(FrameError):
        parcel_of(b"1234", ((name, number),))


@pytest.mark.parametrize("parts", [b"1,2", b"-1,5", b"x", b"", b"1," * 2000 + b"1"])
def test_lengths_of_parts_that_cannot_be_are_refused(parts: bytes) -> None:
    with pytest.raises(FrameError):
        assert parcel_of(b"1234", (("dragoman-parts", parts),)).frames


def datagrams(message: bytes, sequence: int, size: int) -> list[Datagram]:
    return [found for each in pieces(1, 2, sequence, 3, message, size) for found in parse(each)]


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=6), st.integers(HEAD.size + 1, 120), st.randoms()
)
def test_messages_come_together_from_pieces_in_any_order_and_doubled(
    messages: list[bytes], size: int, chance: random.Random
) -> None:
    sent = [each for number, message in enumerate(messages) for each in datagrams(message, number, size)]
    sent += [each for each in sent if chance.random() < 0.3 and each.pieces > 1]
    chance.shuffle(sent)
    assembly = Assembly(largest=1000)
    got: dict[int, bytes] = {}
    for each in sent:
        message = assembly.add(each)
        if message is not None:
            assert got.setdefault(each.sequence, message) == message
    assert got == dict(enumerate(messages))


def test_a_doubled_piece_does_not_stand_for_one_that_is_lost() -> None:
    first, second, third = datagrams(b"a" * 10 + b"b" * 10 + b"c" * 10, 1, HEAD.size + 10)
    assembly = Assembly(largest=1000)
    assert assembly.add(first) is None
    assert assembly.add(first) is None
    assert assembly.add(third) is None
    assert assembly.add(second) == b"a" * 10 + b"b" * 10 + b"c" * 10


def test_a_message_with_a_lost_piece_is_given_up_in_bounded_memory() -> None:
    assembly = Assembly(largest=100)
    for sequence in range(10 * MOST_PARTIAL):
        assert assembly.add(datagrams(b"x" * 40, sequence, HEAD.size + 20)[0]) is None
    assert len(assembly._partial) == MOST_PARTIAL


@given(st.integers(0, 2**32 - 1), st.integers(0, 65535), st.integers(0, 65535), st.binary(max_size=43))
def test_totals_and_numbers_of_a_stranger_are_not_trusted(
    total: int, number: int, count: int, piece: bytes
) -> None:
    found = parse(HEAD.pack(MAGIC, VERSION, DATA, 1, 2, 3, 4, total, number, count) + piece)
    assembly = Assembly(largest=50)
    for whole in map(assembly.add, found):
        assert whole is None or (whole == piece[:total] and len(whole) == total <= 50 and count == 1)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 10**9)), min_size=1, max_size=30),
    st.integers(0, 30),
    st.data(),
)
def test_a_signed_sender_goes_anywhere_ahead_and_nothing_recorded_long_ago_counts(
    steps: list[tuple[int, int]], joined: int, data: st.DataObject
) -> None:
    """Whoever listens from the start, or joins with a stamp that is known from the sender."""
    sent = [(0, 1_000)]
    for ahead, later in steps:
        sent.append((sent[-1][0] + ahead, sent[-1][1] + later))
    heard = sent[min(joined, len(sent) - 1) :]
    course = SignedCourse(heard[0][1])
    newest = heard[0][1]
    for number, stamp in heard:
        replayed = data.draw(st.sampled_from(sent), label="replayed")
        if replayed[1] < newest - LATE_MS:
            assert course.judge(*replayed) is Verdict.STALE
        assert course.judge(number, stamp) is Verdict.TAKE
        newest = stamp


def test_numbers_of_a_signed_sender_never_go_back() -> None:
    course = SignedCourse(0)
    assert course.judge(10**9, 5) is Verdict.TAKE
    assert course.judge(10**9 - SIGNED_NEAR, 5) is Verdict.TAKE
    for _ in range(10):
        assert course.judge(10**9 - SIGNED_NEAR - 1, 5) is Verdict.FORGED


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(0, 10**6), st.integers(0, 7))
def test_a_seal_covers_every_bit_of_its_datagram(messages: list[bytes], place: int, bit: int) -> None:
    data = b"".join(single(1, 2, number, 3, message) for number, message in enumerate(messages))
    sealed = SEALER(1, 2, data)
    assert [found.piece for found in parse(sealed)[1:]] == messages
    assert sealed_by(sealed)
    changed = bytearray(sealed)
    changed[place % len(sealed)] ^= 1 << bit
    assert not sealed_by(bytes(changed))


SEALER = Sealer()


def sealed_by(data: bytes) -> bool:
    found = parse(data)
    if not found or found[0].kind != SEAL:
        return False
    return Sealed(found[0], data).fits(read_key(SEALER.public, ""), 2)


@given(st.binary(max_size=80))
def test_any_datagram_is_parsed_or_ignored(data: bytes) -> None:
    for found in parse(data):
        assert found.piece in data


@given(st.lists(st.binary(max_size=60), max_size=8), st.binary(max_size=43))
def test_messages_that_share_a_datagram_are_told_apart_and_rubbish_behind_them_is_ignored(
    messages: list[bytes], rubbish: bytes
) -> None:
    data = b"".join(single(1, 2, number, 3, message) for number, message in enumerate(messages)) + rubbish
    assert [found.piece for found in parse(data)] == messages


@pytest.mark.parametrize("size", [HEAD.size + 20, HEAD.size + 200])
def test_a_message_larger_than_allowed_is_not_collected(size: int) -> None:
    """Whatever its sender says: the length in a datagram reserves nothing."""
    assembly = Assembly(largest=39)
    for datagram in datagrams(b"x" * 40, 1, size):
        assert assembly.add(datagram) is None
    assert assembly._partial == {}
