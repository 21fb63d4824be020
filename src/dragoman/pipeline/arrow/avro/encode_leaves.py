"""Columns of plain and logical types to how they lie in the bytes, with what does not fit found wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dragoman.pipeline.arrow.arrays import fixed_width, offsets_of, retyped, validity_of
from dragoman.pipeline.arrow.avro.decimals import binary_from_decimals, cast_exactly, fixed_from_decimals
from dragoman.pipeline.arrow.avro.encode_opaque import OpaqueWriter
from dragoman.pipeline.arrow.avro.leaves import UUID_TEXT, byte_matrix
from dragoman.pipeline.arrow.avro.target import DURATION_TYPE, MAX_PRECISION, Opaque
from dragoman.pipeline.arrow.avro.tree import Enum, Fixed, Primitive
from dragoman.pipeline.arrow.rejection import Fault, Malformed, Reason, Rejection

Convert = Callable[[Any, list[Fault], Any], Any]
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """``accepts`` judges a column's type, ``expected`` says what would be accepted."""

    accepts: Callable[[Any], bool]
    expected: str
    convert: Convert


def add_fault(faults: list[Fault], mask: Any, live: Any, rejection: Rejection) -> None:
    """Only rows that count are at fault: under a null parent anything may lie."""
    mask = mask if live is None else mask & live
    if mask.any():
        faults.append(Fault(mask, rejection))


def leaf_of(target: Primitive | Fixed | Enum | Opaque, fast: bool, path: str) -> Leaf:
    match target:
        case Enum():
            return _enum(target, path)
        case Fixed():
            return _fixed(target, fast, path)
        case Opaque():
            return _opaque(target, path)
        case Primitive(kind="int" | "long"):
            return _integer(target, path)
        case Primitive(kind="boolean"):
            return Leaf(pt.is_boolean, "boolean", _same)
        case Primitive(kind="float"):
            return Leaf(pt.is_float32, "float", _same)
        case Primitive(kind="double"):
            return Leaf(_goes_into_double, "double", lambda array, faults, live: array.cast(pa.float64()))
        case Primitive(kind="string"):
            return _text(target, fast, path)
        case Primitive(logical="decimal"):
            return _decimal(target, fast, path)
        case _:
            return Leaf(_is_bytes, "binary", _bytes_form(fast))


def _same(array: Any, faults: list[Fault], live: Any) -> Any:
    return array


def _goes_into_double(type: Any) -> bool:
    return bool(pt.is_floating(type) or (pt.is_integer(type) and type.bit_width <= 32))


def _is_bytes(type: Any) -> bool:
    return bool(pt.is_binary(type) or pt.is_fixed_size_binary(type))


def _bytes_form(fast: bool) -> Convert:
    form = pa.string() if fast else pa.binary()
    return lambda array, faults, live: retyped(array.cast(pa.binary()), form)


def _text(target: Primitive, fast: bool, path: str) -> Leaf:
    form = pa.string() if fast else pa.binary()
    wrong = Rejection(Reason.ENCODE_UUID, "The text is not a UUID.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        if target.logical == "uuid":
            matched = pc.match_substring_regex(array, UUID_TEXT).fill_null(True)
            add_fault(faults, ~matched.to_numpy(zero_copy_only=False), live, wrong)
        return retyped(array, form)

    return Leaf(pt.is_string, "string", convert)


def _enum(target: Enum, path: str) -> Leaf:
    symbols = pa.array([*target.symbols, None], pa.string())
    wrong = Rejection(Reason.ENCODE_ENUM, f"Not one of the symbols {', '.join(target.symbols)}.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        known = pc.is_in(array, symbols)
        if not pc.all(known, min_count=0).as_py():
            add_fault(faults, ~known.to_numpy(zero_copy_only=False), live, wrong)
        return array

    return Leaf(pt.is_string, "string", convert)


def _integer(target: Primitive, path: str) -> Leaf:
    number = _number(target, path)
    logical = target.logical
    if logical is None:
        return Leaf(pt.is_signed_integer, target.kind, number)
    if logical == "date":
        return _either(pt.is_date32, "date", lambda array: array.view(pa.int32()).cast(pa.int64()), number)
    family, _, unit = logical.rpartition("-")
    time = _clock(_PER_SECOND[unit], number, path)
    is_time = pt.is_time if family == "time" else pt.is_timestamp

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        return time(array, faults, live) if is_time(array.type) else number(array, faults, live)

    return Leaf(
        lambda type: is_time(type) or pt.is_signed_integer(type), f"{family} or {target.kind}", convert
    )


def _either(own: Callable[[Any], bool], name: str, to_number: Callable[[Any], Any], number: Convert) -> Leaf:
    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        return number(to_number(array) if own(array.type) else array, faults, live)

    return Leaf(lambda type: own(type) or pt.is_signed_integer(type), f"{name} or int", convert)


def _number(target: Primitive, path: str) -> Convert:
    wrong = Rejection(Reason.ENCODE_RANGE, "The number does not fit an int of 32 bits.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        if target.kind == "int" and array.type == pa.int64():
            outside = pc.or_(pc.less(array, _INT_MIN), pc.greater(array, _INT_MAX)).fill_null(False)
            add_fault(faults, outside.to_numpy(zero_copy_only=False), live, wrong)
        return array if array.type == pa.int64() else array.cast(pa.int64())

    return convert


def _clock(per_second: int, number: Convert, path: str) -> Convert:
    """Times in the column's own unit to the contract's, cut towards the past where that is coarser."""
    wrong = Rejection(Reason.ENCODE_TIME, "The time is out of the contract's range.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        width = pa.int32() if pt.is_time32(array.type) else pa.int64()
        values = array.view(width).cast(pa.int64())
        own = 10**9 // _NANOS[array.type.unit]
        if own > per_second:
            cut = fixed_width(values, np.int64) // (own // per_second)
            values = pa.Array.from_buffers(pa.int64(), len(array), [validity_of(array), pa.py_buffer(cut)])
        elif own < per_second:
            factor = per_second // own
            limit = (2**63 - 1) // factor
            outside = pc.or_(pc.less(values, -limit), pc.greater(values, limit)).fill_null(False)
            add_fault(faults, outside.to_numpy(zero_copy_only=False), live, wrong)
            values = pc.multiply(pc.if_else(outside, pa.scalar(0, pa.int64()), values), factor)
        return number(values, faults, live)

    return convert


def _scaled(target: Primitive | Fixed, path: str) -> Convert:
    """The decimals with the contract's scale, those that lose digits or have too many found wrong."""
    wrong = Rejection(
        Reason.ENCODE_DECIMAL, f"Not a decimal({target.precision}, {target.scale}) without loss.", path
    )
    type = pa.decimal128(min(target.precision, MAX_PRECISION), target.scale)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        if array.type == type:
            return array
        found, lost = cast_exactly(array, type)
        if lost is not None:
            add_fault(faults, lost, live, wrong)
        return found

    return convert


def _decimal(target: Primitive, fast: bool, path: str) -> Leaf:
    scaled = _scaled(target, path)
    form = pa.string() if fast else pa.binary()
    return Leaf(
        pt.is_decimal128,
        f"decimal({target.precision}, {target.scale})",
        lambda array, faults, live: retyped(binary_from_decimals(scaled(array, faults, live)), form),
    )


def _fixed(target: Fixed, fast: bool, path: str) -> Leaf:
    def form(matrix: Any, array: Any) -> Any:
        return _fixed_form(np.ascontiguousarray(matrix), validity_of(array), fast)

    if target.logical == "decimal":
        return _fixed_decimal(target, form, path)
    if target.logical == "uuid":
        return _fixed_uuid(form, path)
    if target.logical == "duration":
        return _duration(form, path)
    wrong = Rejection(Reason.ENCODE_LENGTH, f"There are not {target.size} bytes.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        array = array.cast(pa.binary())
        bounds = offsets_of(array)
        right = (bounds[1:] - bounds[:-1] == target.size) | array.is_null().to_numpy(zero_copy_only=False)
        if not right.all():
            add_fault(faults, ~right, live, wrong)
            array = pc.if_else(pa.array(right), array, pa.scalar(bytes(target.size), pa.binary()))
        return form(byte_matrix(array, target.size), array)

    return Leaf(_is_bytes, f"binary of {target.size} bytes", convert)


def _fixed_form(matrix: Any, validity: Any, fast: bool) -> Any:
    """Rows of bytes as a binary column, or side by side as the numbers that stand for them."""
    count, width = matrix.shape
    if not fast:
        bounds = pa.py_buffer(np.arange(0, width * (count + 1), max(width, 1), dtype=np.int32)[: count + 1])
        return pa.Array.from_buffers(pa.binary(), count, [validity, bounds, pa.py_buffer(matrix)])
    kinds = [("<f8", pa.float64())] * (width // 8) + [("<f4", pa.float32())] * (width % 8 // 4)
    children, at = [], 0
    for dtype, type in kinds:
        size = np.dtype(dtype).itemsize
        part = np.ascontiguousarray(matrix[:, at : at + size])
        children.append(pa.Array.from_buffers(type, count, [None, pa.py_buffer(part)]))
        at += size
    shape = pa.struct([(f"f{i}", child.type) for i, child in enumerate(children)])
    return pa.Array.from_buffers(shape, count, [validity], children=children)


def _fixed_decimal(target: Fixed, form: Callable[[Any, Any], Any], path: str) -> Leaf:
    scaled = _scaled(target, path)
    wrong = Rejection(Reason.ENCODE_DECIMAL, f"The decimal does not fit {target.size} bytes.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        numbers = scaled(array, faults, live)
        matrix, outside = fixed_from_decimals(numbers, target.size)
        add_fault(faults, outside, live, wrong)
        return form(matrix, numbers)

    return Leaf(pt.is_decimal128, f"decimal({target.precision}, {target.scale})", convert)


def _fixed_uuid(form: Callable[[Any, Any], Any], path: str) -> Leaf:
    wrong = Rejection(Reason.ENCODE_UUID, "The text is not a UUID.", path)
    nil = pa.scalar("00000000-0000-0000-0000-000000000000", pa.string())

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        matched = pc.match_substring_regex(array, UUID_TEXT).fill_null(False)
        mask = matched.to_numpy(zero_copy_only=False)
        add_fault(faults, ~mask & array.is_valid().to_numpy(zero_copy_only=False), live, wrong)
        texts = pc.if_else(matched, array, nil).to_pylist()
        raw = bytes.fromhex("".join(texts).replace("-", ""))
        return form(np.frombuffer(raw, dtype=np.uint8).reshape(-1, 16), array)

    return Leaf(pt.is_string, "string", convert)


def _duration(form: Callable[[Any, Any], Any], path: str) -> Leaf:
    wrong = Rejection(Reason.ENCODE_RANGE, "Months, days and milliseconds are 0 to 2**32 - 1 each.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        parts = [array.field(each.name).cast(pa.int64()) for each in DURATION_TYPE]
        numbers = [each.fill_null(-1).to_numpy(zero_copy_only=False) for each in parts]
        matrix = np.stack(numbers, axis=1)
        outside = ((matrix < 0) | (matrix >= 2**32)).any(axis=1)
        add_fault(faults, outside & array.is_valid().to_numpy(zero_copy_only=False), live, wrong)
        return form(matrix.astype("<u4").view(np.uint8).reshape(-1, 12), array)

    return Leaf(_is_duration, "struct of months, days, milliseconds", convert)


def _is_duration(type: Any) -> bool:
    return pt.is_struct(type) and {each.name for each in type} == {each.name for each in DURATION_TYPE}


def _opaque(target: Opaque, path: str) -> Leaf:
    """JSON text of a union or a recursive type, written value by value. A null may be the union's."""
    write = OpaqueWriter(target.schema, path).write

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        cells: list[bytes | None] = []
        wrong: dict[Rejection, Any] = {}
        for row, text in enumerate(array.to_pylist()):
            cell = None
            if text is not None or target.takes_null:
                try:
                    cell = write(text)
                except Malformed as found:
                    wrong.setdefault(found.rejection, np.zeros(len(array), dtype=bool))[row] = True
            cells.append(cell)
        for rejection, mask in wrong.items():
            add_fault(faults, mask, live, rejection)
        return pa.array(cells, pa.binary())

    return Leaf(pt.is_string, "string with JSON text", convert)
