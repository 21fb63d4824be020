"""Find text that is not UTF-8, without looking at each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.pipeline.arrow.arrays import as_binary, bytes_of, offsets_of, retyped, valid_mask


def invalid_text(array: Any) -> tuple[Any, Any]:
    """The array as valid strings, and a mask of the rows that were not, or ``None``. Those become empty."""
    strings = retyped(array, pa.string())
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        wrong = _wrong_rows(strings)
        good = pc.if_else(pa.array(~wrong), as_binary(strings), pa.scalar(b"", pa.binary()))
        return retyped(good, pa.string()), wrong
    return strings, None


def _wrong_rows(strings: Any) -> Any:
    """Only rows with a byte above 127 can be wrong, so only those are decoded."""
    bounds, data = offsets_of(strings), bytes_of(strings)
    high = np.flatnonzero(data[bounds[0] : bounds[-1]] >= 0x80) + bounds[0]
    rows = np.unique(np.searchsorted(bounds, high, side="right") - 1)
    wrong: Any = np.zeros(len(strings), dtype=bool)
    for row in rows.tolist():
        try:
            bytes(data[bounds[row] : bounds[row + 1]]).decode()
        except UnicodeDecodeError:
            wrong[row] = True
    valid = valid_mask(strings)
    return wrong if valid is None else wrong & valid
