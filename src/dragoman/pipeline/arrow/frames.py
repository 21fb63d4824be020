"""The five bytes before each payload, read for a whole column at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from dragoman.pipeline.arrow.arrays import bytes_of, offsets_of, valid_mask
from dragoman.schema.framing import HEADER_SIZE


class Headers(NamedTuple):
    """``framed``: has a header; ``missing``: no message at all; ``ids`` count only where framed."""

    framed: Any
    missing: Any
    long_enough: Any
    ids: Any


def headers_of(frames: Any) -> Headers:
    count = len(frames)
    bounds, data = offsets_of(frames).astype(np.int64), bytes_of(frames)
    valid = valid_mask(frames)
    missing = np.zeros(count, dtype=bool) if valid is None else ~valid
    long_enough = ((bounds[1:] - bounds[:-1]) >= HEADER_SIZE) & ~missing
    if count and long_enough.all():
        return _all_long_enough(frames, missing)
    if len(data) < HEADER_SIZE:
        return Headers(long_enough, missing, long_enough, np.zeros(count, dtype=np.int32))
    start = np.where(long_enough, bounds[:-1], 0)
    ids: Any = np.zeros(count, dtype=np.int32)
    for place in range(1, HEADER_SIZE):
        ids = (ids << 8) | data[start + place]
    framed = long_enough & (data[start] == 0) & (ids >= 0)
    return Headers(framed, missing, long_enough, ids)


def _all_long_enough(frames: Any, missing: Any) -> Headers:
    """The usual case: the headers lie one behind the other once they are cut off."""
    heads = bytes_of(pc.binary_slice(frames, 0, HEADER_SIZE)).reshape(len(frames), HEADER_SIZE)
    ids = np.ascontiguousarray(heads[:, 1:]).view(">i4")[:, 0].astype(np.int32)
    return Headers((heads[:, 0] == 0) & (ids >= 0), missing, ~missing, ids)
