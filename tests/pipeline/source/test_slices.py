from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.log import LogSlice, pack_headers
from dragoman.core.message import Headers
from dragoman.pipeline.slices import columns_of, joined, unpacked_headers

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=4).map(tuple)


def bounds(parts: list[bytes]) -> bytes:
    ends = array("i", [0])
    for part in parts:
        ends.append(ends[-1] + len(part))
    return ends.tobytes()


def slice_of(rows: list[tuple[bytes | None, bytes | None, Headers]]) -> LogSlice:
    values, keys = [row[0] or b"" for row in rows], [row[1] or b"" for row in rows]
    headers = [pack_headers(row[2]) for row in rows]
    count = len(rows)
    return LogSlice(
        count,
        array("q", range(count)).tobytes(),
        array("q", range(count)).tobytes(),
        bounds(values),
        b"".join(values),
        bytes(row[0] is None for row in rows),
        bounds(keys),
        b"".join(keys),
        bytes(row[1] is None for row in rows),
        bounds(headers),
        b"".join(headers),
        count,
    )


CELLS = st.none() | st.binary(max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS, HEADERS), min_size=1, max_size=6), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_a_slice_of_the_log_is_the_same_messages_as_columns(
    rows: list[tuple[bytes | None, bytes | None, Headers]], start: int
) -> None:
    start = min(start, len(rows) - 1)
    columns = columns_of(slice_of(rows))
    again = joined([columns, columns]).slice(start, len(rows))
    expected = (rows + rows)[start : start + len(rows)]

    assert again.frames.to_pylist() == [row[0] for row in expected]
    assert again.keys.to_pylist() == [row[1] for row in expected]
    found = unpacked_headers(again.headers).to_pylist()
    assert [[(h["name"], h["value"]) for h in cell] for cell in found] == [list(row[2]) for row in expected]
