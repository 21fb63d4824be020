"""Big-endian two's complement bytes to decimals and back, a whole column at a time."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.pipeline.arrow.arrays import (
    binary_from_matrix,
    bytes_of,
    fixed_width,
    offsets_of,
    valid_mask,
    validity_of,
)

WIDTH = 16


def decimals_from_binary(array: Any, precision: int, scale: int, type: Any) -> tuple[Any, Any]:
    """The column, and a mask of rows with too many digits, or ``None``. Those become zero."""
    if pa.types.is_string(type):
        return _as_text(array, precision, scale)
    bounds = offsets_of(array).astype(np.int64)
    sizes = bounds[1:] - bounds[:-1]
    if len(sizes) and sizes.max() > WIDTH:
        return _by_rows(array, precision, scale, type)
    matrix = _little_endian(bytes_of(array), bounds, sizes)
    buffers = [validity_of(array), pa.py_buffer(matrix)]
    found = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), buffers)
    limit = pa.scalar(decimal.Decimal(10**precision - 1), pa.decimal128(38, 0))
    wrong = pc.or_(pc.greater(found, limit), pc.less(found, pc.negate(limit))).fill_null(False)
    mask = wrong.to_numpy(zero_copy_only=False)
    if mask.any():
        matrix[mask] = 0
        buffers = [validity_of(array), pa.py_buffer(matrix)]
    return pa.Array.from_buffers(type, len(array), buffers), mask if mask.any() else None


def _little_endian(data: Any, bounds: Any, sizes: Any) -> Any:
    """Each value sign-extended to sixteen bytes, the lowest first."""
    count = len(sizes)
    matrix: Any = np.zeros((count, WIDTH), dtype=np.uint8)
    if not len(data):
        return matrix
    present = sizes > 0
    first = data[np.where(present, bounds[:-1], 0)]
    negative = present & (first >= 0x80)
    matrix[negative] = 0xFF
    ends = bounds[1:] - 1
    for place in range(int(sizes.max()) if count else 0):
        inside = place < sizes
        matrix[inside, place] = data[ends[inside] - place]
    return matrix


def _numbers(array: Any) -> list[int | None]:
    cells = array.to_pylist()
    return [None if cell is None else int.from_bytes(cell, "big", signed=True) for cell in cells]


def _by_rows(array: Any, precision: int, scale: int, type: Any) -> tuple[Any, Any]:
    numbers = _numbers(array)
    wrong = np.array([each is not None and abs(each) >= 10**precision for each in numbers], dtype=bool)
    context = decimal.Context(prec=precision + 1)
    cells = [
        None if each is None else decimal.Decimal(0 if bad else each).scaleb(-scale, context)
        for each, bad in zip(numbers, wrong.tolist(), strict=True)
    ]
    return pa.array(cells, type), wrong if wrong.any() else None


def _as_text(array: Any, precision: int, scale: int) -> tuple[Any, Any]:
    """More digits than a decimal column holds are kept as text."""
    numbers = _numbers(array)
    wrong = np.array([each is not None and abs(each) >= 10**precision for each in numbers], dtype=bool)
    cells = [None if each is None else _text(each, scale) for each in numbers]
    return pa.array(cells, pa.string()), wrong if wrong.any() else None


def _text(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    point = len(digits) - scale
    return ("-" if number < 0 else "") + digits[:point] + ("." + digits[point:] if scale else "")


def cast_exactly(array: Any, type: Any) -> tuple[Any, Any]:
    """The decimals as another type, and a mask of those that do not fit it (now zero), or ``None``."""
    try:
        return array.cast(type), None
    except pa.ArrowInvalid:
        wrong = np.array([not _fits(each, type) for each in array], dtype=bool)
        zero = pa.scalar("0" if pa.types.is_string(array.type) else decimal.Decimal(0), array.type)
        return pc.if_else(pa.array(wrong), zero, array).cast(type), wrong


def _fits(value: Any, type: Any) -> bool:
    try:
        value.cast(type)
    except pa.ArrowInvalid:
        return False
    return True


def binary_from_decimals(array: Any) -> Any:
    """Each value in as few bytes as it needs."""
    matrix = fixed_width_bytes(array)
    negative = matrix[:, :1] >= 0x80
    filler = np.where(negative, 0xFF, 0).astype(np.uint8)
    same = matrix == filler
    leading = np.logical_and.accumulate(same, axis=1)
    next_keeps_sign = (matrix[:, 1:] >= 0x80) == negative
    drop = np.zeros_like(same)
    drop[:, :-1] = leading[:, :-1] & next_keeps_sign
    drop = np.logical_and.accumulate(drop, axis=1)
    return binary_from_matrix(matrix, ~drop, pa.binary(), validity_of(array))


def fixed_from_decimals(array: Any, size: int) -> tuple[Any, Any]:
    """Each value in exactly ``size`` bytes, and a mask of those that do not fit."""
    matrix = fixed_width_bytes(array)
    filler = np.where(matrix[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    if size >= WIDTH:
        padding = np.repeat(filler, size - WIDTH, axis=1)
        return np.concatenate([padding, matrix], axis=1), np.zeros(len(matrix), dtype=bool)
    cut, kept = matrix[:, : WIDTH - size], matrix[:, WIDTH - size :]
    fits = (cut == filler).all(axis=1) & ((kept[:, :1] >= 0x80) == (filler >= 0x80))[:, 0]
    valid = valid_mask(array)
    return np.ascontiguousarray(kept), ~fits if valid is None else ~fits & valid


def fixed_width_bytes(array: Any) -> Any:
    """The sixteen bytes of each decimal, the highest first; zeros where it is null."""
    numbers = fixed_width(array, np.dtype("V16")).view(np.uint8).reshape(len(array), WIDTH)
    matrix = np.ascontiguousarray(numbers[:, ::-1])
    valid = valid_mask(array)
    if valid is not None:
        matrix[~valid] = 0
    return matrix
