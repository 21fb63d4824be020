"""The block format: what was put in comes out, as messages and as columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.adapters.embedded.block import HEADER, Block, block_at, draft
from dragoman.adapters.embedded.columns import slice_of
from dragoman.core.errors import EncodeError
from dragoman.core.message import Message
from dragoman.testing.brokers.history import messages_of

headers = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=12)), max_size=3).map(tuple)
messages = st.builds(
    Message,
    channel=st.just("c"),
    payload=st.none() | st.binary(max_size=40),
    key=st.none() | st.binary(max_size=10),
    headers=headers,
    partition=st.none(),
    offset=st.none(),
    timestamp=st.none() | st.integers(-(2**62), 2**62),
    attempt=st.just(1),
)
batches = st.lists(messages, min_size=1, max_size=8)


def blocks_of(groups: list[list[Message]], base: int) -> list[Block]:
    found = []
    for group in groups:
        data = memoryview(draft(group, now=77).at(base))
        block = block_at(data, 0)
        assert block is not None and block.whole and block.size == len(data)
        found.append(block)
        base += len(group)
    return found


def expected(groups: list[list[Message]], base: int) -> list[Message]:
    flat = [message for group in groups for message in group]
    return [
        message._replace(
            partition=3, offset=base + index, timestamp=77 if message.timestamp is None else message.timestamp
        )
        for index, message in enumerate(flat)
    ]


@given(batches, st.integers(0, 2**50))
@settings(max_examples=200, deadline=None)
def test_messages_come_out_of_a_block_as_they_went_in(group: list[Message], base: int) -> None:
    [block] = blocks_of([group], base)
    assert block.messages("c", 3) == expected([group], base)
    assert block.newest == max(message.timestamp or 0 for message in expected([group], base))


@given(st.lists(batches, min_size=1, max_size=5), st.integers(0, 2**50), st.data())
@settings(max_examples=200, deadline=None)
def test_joined_columns_hold_the_same_messages(
    groups: list[list[Message]], base: int, data: st.DataObject
) -> None:
    every = expected(groups, base)
    blocks = blocks_of(groups, base)
    start = data.draw(st.integers(base, blocks[0].end - 1))
    end = data.draw(st.integers(max(start, blocks[-1].base) + 1, blocks[-1].end))
    found = slice_of(blocks, start, end)
    assert messages_of("c", 3, found) == every[start - base : end - base]
    assert found.next_offset == end


@given(batches, st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_byte_is_noticed(group: list[Message], data: st.DataObject) -> None:
    raw = bytearray(draft(group, now=1).at(5))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    block = block_at(memoryview(raw), 0)
    assert block is None or not block.whole


@given(st.binary(max_size=200))
def test_foreign_bytes_are_no_block(data: bytes) -> None:
    assert block_at(memoryview(data), 0) is None or len(data) >= HEADER.size


def test_a_header_name_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(EncodeError):
        draft([Message("c", b"", headers=(("x" * 70_000, b""),))], now=1)
