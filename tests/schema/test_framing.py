"""The frame that every message wears."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.core.errors import FrameError
from dragoman.schema.framing import HEADER_SIZE, MAX_ID, frame, header_of, unframe

patient = settings(deadline=None, suppress_health_check=list(HealthCheck))


@given(st.integers(0, MAX_ID), st.binary())
@patient
def test_a_frame_gives_back_what_was_put_in(schema_id: int, payload: bytes) -> None:
    framed = frame(schema_id, payload)
    assert framed == b"\x00" + schema_id.to_bytes(4, "big") + payload
    assert unframe(framed) == (schema_id, payload)
    assert header_of(schema_id) + payload == framed


@pytest.mark.parametrize("schema_id", [-1, MAX_ID + 1])
def test_an_id_that_fits_no_frame_is_refused(schema_id: int) -> None:
    with pytest.raises(FrameError) as caught:
        header_of(schema_id)
    assert caught.value.code == "message.frame.id"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "message.frame.truncated"),
        (b"\x00\x00\x00\x01", "message.frame.truncated"),
        (b'{"a": 1}', "message.frame.foreign"),
        (b"\x01\x00\x00\x00\x01x", "message.frame.foreign"),
        (b"\x00\xff\xff\xff\xffx", "message.frame.foreign"),
        (frame(1, b"x" * 20), "message.frame.oversize"),
    ],
)
def test_truncated_foreign_and_oversize_have_their_own_errors(data: bytes, code: str) -> None:
    with pytest.raises(FrameError) as caught:
        unframe(data, limit=10)
    assert caught.value.code == code


def test_a_frame_at_the_limit_is_accepted() -> None:
    assert unframe(frame(7, b"12345"), limit=10) == (7, b"12345")


@given(st.binary(max_size=12))
@patient
def test_any_bytes_are_a_frame_or_a_frame_error(data: bytes) -> None:
    try:
        schema_id, payload = unframe(data)
    except FrameError:
        return
    assert frame(schema_id, payload) == data
    assert len(data) >= HEADER_SIZE
