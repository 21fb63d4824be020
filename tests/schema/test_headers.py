"""Headers as bytes in a log."""

from __future__ import annotations

import pytest

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.log import pack_headers, unpack_headers


def test_headers_come_back_in_order() -> None:
    headers = (("a", b"1"), ("\u00fc" * 100, b""), ("a", b"\0" * 70_000))
    assert unpack_headers(pack_headers(headers)) == headers
    assert unpack_headers(pack_headers(())) == ()


@pytest.mark.parametrize("name", ["x" * 65_536, "\ud800"])
def test_a_name_that_no_log_can_hold_is_refused(name: str) -> None:
    with pytest.raises(EncodeError):
        pack_headers(((name, b"1"),))


@pytest.mark.parametrize("cut", [1, 5, 7, 8])
def test_bytes_that_are_cut_are_no_headers(cut: int) -> None:
    with pytest.raises(DecodeError):
        unpack_headers(pack_headers((("ab", b"1"),))[:cut])
