"""Small moves on Arrow arrays that keep their buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def offsets_of(array: Any) -> Any:
    """The int32 offsets of a binary, string, list or map array, the slice's own part."""
    if len(array) == 0:
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def bytes_of(array: Any) -> Any:
    """The data buffer of a binary or string array."""
    data = array.buffers()[2]
    return np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)


def fixed_width(array: Any, dtype: Any) -> Any:
    """The values of a fixed-width array as numpy sees them, nulls included."""
    if len(array) == 0:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + len(array)]


def retyped(array: Any, type: Any) -> Any:
    """The same buffers under another type of the same layout, with nothing checked."""
    if array.type == type:
        return array
    return pa.Array.from_buffers(type, len(array), array.buffers(), array.null_count, array.offset)


def as_binary(array: Any) -> Any:
    return retyped(array, pa.binary())


def valid_mask(array: Any) -> Any:
    """A boolean numpy array, true where there is a value; ``None`` if there is one everywhere."""
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def null_mask(array: Any) -> Any:
    return array.is_null() if array.null_count else None


def struct(children: list[Any], type: Any, nulls: Any, count: int) -> Any:
    if not children:
        mask = None if nulls is None else nulls
        validity = None if mask is None else pa.array(~np.asarray(mask)).buffers()[1]
        return pa.Array.from_buffers(type, count, [validity])
    return pa.StructArray.from_arrays(children, fields=list(type), mask=nulls)


def with_values(array: Any, values: Any, type: Any) -> Any:
    """A list array with the same bounds and nulls but other values."""
    validity, bounds = array.buffers()[:2]
    return pa.Array.from_buffers(
        type, len(array), [validity, bounds], array.null_count, array.offset, children=[values]
    )


def with_entries(array: Any, keys: Any, items: Any, type: Any) -> Any:
    """A map array with the same bounds and nulls but other entries."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[type.key_field, type.item_field])
    return with_values(array, entries, type)


def lift(array: Any, mask: Any) -> Any:
    """From a mask over a list's values to one over its rows: true where any of its values is."""
    bounds = offsets_of(array)
    sums = np.concatenate(([0], np.cumsum(mask)))
    found = (sums[bounds[1:]] - sums[bounds[:-1]]) > 0
    valid = valid_mask(array)
    return found if valid is None else found & valid


def binary_from_matrix(matrix: Any, keep: Any, type: Any, validity: Any = None) -> Any:
    """A variable-width array from a byte matrix: of each row the bytes where ``keep`` is true."""
    bounds: Any = np.zeros(len(matrix) + 1, dtype=np.int32)
    np.cumsum(keep.sum(axis=1), out=bounds[1:])
    data = matrix[keep]
    return pa.Array.from_buffers(type, len(matrix), [validity, pa.py_buffer(bounds), pa.py_buffer(data)])


def validity_of(array: Any) -> Any:
    """The validity bitmap starting at bit 0, or ``None``."""
    if not array.null_count:
        return None
    return pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]


def pick(arrays: list[Any], choice: Any) -> Any:
    """Row ``i`` of the array number ``choice[i]``; null where that is negative. All have one length."""
    count = len(arrays[0])
    rows = choice.astype(np.int64) * count + np.arange(count)
    return pa.concat_arrays(arrays).take(pa.array(rows, mask=choice < 0))
