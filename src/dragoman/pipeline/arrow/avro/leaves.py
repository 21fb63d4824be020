"""Columns of plain and logical types, from how they lie in the bytes to what the reader asks for.

Every function here gives a ``Resolver``: it takes an array as read, appends what it finds wrong, and
returns the reader's column. Rows found wrong hold anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.pipeline.arrow.arrays import (
    as_binary,
    bytes_of,
    fixed_width,
    offsets_of,
    retyped,
    struct,
    valid_mask,
    validity_of,
)
from dragoman.pipeline.arrow.avro.decimals import cast_exactly, decimals_from_binary
from dragoman.pipeline.arrow.avro.target import DURATION_TYPE, MAX_PRECISION
from dragoman.pipeline.arrow.avro.tree import Fixed, Primitive
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection
from dragoman.pipeline.arrow.text import invalid_text

Resolver = Callable[[Any, list[Fault]], Any]

NUMBERS = {"int": 0, "long": 1, "float": 2, "double": 3}
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
UUID_TEXT = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_DAY = 86_400


def unchanged(array: Any, faults: list[Fault]) -> Any:
    return array


def number(writer: Primitive, reader: Primitive, type: Any, path: str) -> Resolver:
    convert = _number_as(writer, reader, type, path)
    if writer.kind != "int":
        return convert

    def resolve(array: Any, faults: list[Fault]) -> Any:
        return convert(_within(array, _INT_MIN, _INT_MAX, faults, _too_big(path)), faults)

    return resolve


def _too_big(path: str) -> Rejection:
    return Rejection(Reason.RANGE, "The number does not fit an int of 32 bits.", path)


def _within(array: Any, low: int, high: int, faults: list[Fault], rejection: Rejection) -> Any:
    """The array with numbers outside of the bounds found wrong and set to zero."""
    bounds = pc.min_max(array)
    if not bounds["min"].is_valid or (bounds["min"].as_py() >= low and bounds["max"].as_py() <= high):
        return array
    wrong = pc.or_(pc.less(array, low), pc.greater(array, high)).fill_null(False)
    faults.append(Fault(wrong.to_numpy(zero_copy_only=False), rejection))
    return pc.if_else(wrong, pa.scalar(0, array.type), array)


def _number_as(writer: Primitive, reader: Primitive, type: Any, path: str) -> Resolver:
    if reader.logical is not None:
        return _time(writer, reader, type, path)
    if pa.types.is_int64(type):
        return unchanged
    return lambda array, faults: array if array.type == type else array.cast(type, safe=False)


def _time(writer: Primitive, reader: Primitive, type: Any, path: str) -> Resolver:
    logical = reader.logical or ""
    if logical == "date":
        return lambda array, faults: array.cast(pa.int32()).cast(type)
    family, _, unit = logical.rpartition("-")
    written_unit = _unit_of(writer.logical) or unit
    if family == "time":
        return _time_of_day(_PER_SECOND[written_unit], type, path)
    target = "nanos" if pa.types.is_int64(type) else "micros"
    return _timestamp(_PER_SECOND[written_unit], _PER_SECOND[target], type, path)


def _unit_of(logical: str | None) -> str | None:
    """The unit that the writer used, if it too means a time, of whatever kind."""
    unit = (logical or "").rpartition("-")[2]
    return unit if unit in _PER_SECOND else None


def _time_of_day(per_second: int, type: Any, path: str) -> Resolver:
    rejection = Rejection(Reason.TIME, "The time of day is negative or past midnight.", path)
    factor = _PER_SECOND["nanos"] // per_second

    def resolve(array: Any, faults: list[Fault]) -> Any:
        array = _within(array, 0, _DAY * per_second - 1, faults, rejection)
        return pc.multiply(array, factor).view(type)

    return resolve


def _timestamp(per_second: int, target: int, type: Any, path: str) -> Resolver:
    rejection = Rejection(Reason.RANGE, "The timestamp is out of range.", path)
    if per_second == target:
        return lambda array, faults: array.view(type)
    if per_second > target:
        return lambda array, faults: _floor_divide(array, per_second // target).view(type)
    factor = target // per_second
    low, high = -(2**63) // factor + 1, (2**63 - 1) // factor

    def resolve(array: Any, faults: list[Fault]) -> Any:
        return pc.multiply(_within(array, low, high, faults, rejection), factor).view(type)

    return resolve


def _floor_divide(array: Any, divisor: int) -> Any:
    """Towards the past also before 1970, as a clock is cut."""
    values = fixed_width(array, np.int64) // divisor
    return pa.Array.from_buffers(pa.int64(), len(array), [validity_of(array), pa.py_buffer(values)])


def text(reader: Primitive, path: str) -> Resolver:
    wrong_text = Rejection(Reason.TEXT, "The text is not valid UTF-8.", path)
    wrong_uuid = Rejection(Reason.UUID, "The text is not a UUID.", path)

    def resolve(array: Any, faults: list[Fault]) -> Any:
        checked, wrong = invalid_text(array)
        if wrong is not None:
            faults.append(Fault(wrong, wrong_text))
        return checked

    def resolve_uuid(array: Any, faults: list[Fault]) -> Any:
        checked = resolve(array, faults)
        matched = pc.match_substring_regex(checked, UUID_TEXT).fill_null(True)
        if not pc.all(matched, min_count=0).as_py():
            faults.append(Fault(~matched.to_numpy(zero_copy_only=False), wrong_uuid))
        return checked

    return resolve_uuid if reader.logical == "uuid" else resolve


def binary(array: Any, faults: list[Fault]) -> Any:
    return as_binary(fixed_bytes(array))


def decimal(writer: Primitive | Fixed, reader: Primitive | Fixed, type: Any, path: str) -> Resolver:
    """The bytes mean what their writer meant; a scale that differs is brought to the reader's."""
    written = writer if writer.logical == "decimal" else reader
    too_long = Rejection(Reason.DECIMAL, f"The decimal has more than {written.precision} digits.", path)
    loses = Rejection(
        Reason.DECIMAL, f"Not a decimal({reader.precision}, {reader.scale}) without loss.", path
    )
    own = type
    if written.scale != reader.scale or written.precision > reader.precision:
        fits = written.precision <= MAX_PRECISION
        own = pa.decimal128(written.precision, written.scale) if fits else pa.string()

    def resolve(array: Any, faults: list[Fault]) -> Any:
        cells = binary(array, faults)
        found, wrong = decimals_from_binary(cells, written.precision, written.scale, own)
        if wrong is not None:
            faults.append(Fault(wrong, too_long))
        if own == type:
            return found
        found, lost = cast_exactly(found, type)
        if lost is not None:
            faults.append(Fault(lost, loses))
        return found

    return resolve


def fixed_uuid(array: Any, faults: list[Fault]) -> Any:
    """Sixteen bytes as the usual text."""
    cells = byte_matrix(binary(array, faults), 16)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    hexadecimal: Any = np.empty((len(cells), 32), dtype=np.uint8)
    hexadecimal[:, 0::2], hexadecimal[:, 1::2] = digits[cells >> 4], digits[cells & 15]
    signs: Any = np.full((len(cells), 36), ord("-"), dtype=np.uint8)
    signs[:, [*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36)]] = hexadecimal
    bounds: Any = np.arange(0, 36 * (len(cells) + 1), 36, dtype=np.int32)
    buffers = [validity_of(array), pa.py_buffer(bounds), pa.py_buffer(signs)]
    return pa.Array.from_buffers(pa.string(), len(cells), buffers)


def duration(array: Any, faults: list[Fault]) -> Any:
    """Three little-endian numbers of 32 bits: months, days, milliseconds."""
    numbers = byte_matrix(binary(array, faults), 12).view("<u4").astype(np.int64)
    children = [pa.array(np.ascontiguousarray(numbers[:, i])) for i in range(3)]
    nulls = pa.array(array.is_null()) if array.null_count else None
    return struct(children, DURATION_TYPE, nulls, len(array))


def byte_matrix(array: Any, width: int) -> Any:
    """A binary array of values of one width as rows of bytes; zeros where it is null.

    Under a null parent a value may have any width: zeros too.
    """
    bounds = offsets_of(array).astype(np.int64)
    whole = bounds[1:] - bounds[:-1] == width
    valid = valid_mask(array)
    if valid is not None:
        whole &= valid
    matrix: Any = np.zeros((len(array), width), dtype=np.uint8)
    matrix[whole] = bytes_of(array)[bounds[:-1][whole, None] + np.arange(width)]
    return matrix


def fixed_bytes(array: Any) -> Any:
    """A ``fixed`` as one binary column, also where it was read as several numbers side by side."""
    if not pa.types.is_struct(array.type):
        return array
    parts = [_number_bytes(array.field(i)) for i in range(array.type.num_fields)]
    matrix = np.ascontiguousarray(np.concatenate(parts, axis=1))
    width = matrix.shape[1]
    bounds = np.arange(0, width * (len(array) + 1), width, dtype=np.int32)
    buffers = [validity_of(array), pa.py_buffer(bounds), pa.py_buffer(matrix)]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def _number_bytes(array: Any) -> Any:
    width = array.type.bit_width // 8
    numbers = fixed_width(array, np.dtype(f"<u{width}"))
    return numbers.view(np.uint8).reshape(len(array), width)


def string_of_enum(array: Any, faults: list[Fault]) -> Any:
    return retyped(array, pa.string())
