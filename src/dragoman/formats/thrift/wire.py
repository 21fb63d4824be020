"""What compiled codecs call while they run: numbers, sizes, and passing over what they do not know."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.formats.thrift.model import Base, EnumType, ListType, MapType, SetType, StructType, Type

MAX_DEPTH = 64
"""How deep structs may contain structs in a payload."""

read_i16 = struct.Struct(">h").unpack_from
read_i32 = struct.Struct(">i").unpack_from
read_i64 = struct.Struct(">q").unpack_from
read_big_double = struct.Struct(">d").unpack_from
read_little_double = struct.Struct("<d").unpack_from
pack_i8 = struct.Struct(">b").pack
pack_i16 = struct.Struct(">h").pack
pack_i32 = struct.Struct(">i").pack
pack_i64 = struct.Struct(">q").pack
pack_big_double = struct.Struct(">d").pack
pack_little_double = struct.Struct("<d").pack


def binary_code(type: Type) -> int:
    """How the binary protocol names a type."""
    match type:
        case Base():
            return _BINARY[type]
        case EnumType():
            return 8
        case StructType():
            return 12
        case MapType():
            return 13
        case SetType():
            return 14
        case ListType():
            return 15


_BINARY = {
    Base.BOOL: 2, Base.BYTE: 3, Base.DOUBLE: 4, Base.I16: 6, Base.I32: 8, Base.I64: 10, Base.STRING: 11,
    Base.BINARY: 11, Base.UUID: 16,
}  # fmt: skip
_COMPACT = {2: 1, 3: 3, 4: 7, 6: 4, 8: 5, 10: 6, 11: 8, 12: 12, 13: 11, 14: 10, 15: 9, 16: 13}


def compact_code(type: Type) -> int:
    """How the compact protocol names a type. A bool has two: 1 is also true, 2 is false."""
    return _COMPACT[binary_code(type)]


def truncated() -> NoReturn:
    raise DecodeError("The payload ends too early.")


def wrong_part(name: str) -> NoReturn:
    raise DecodeError(f"The parts of {name!r} are of another type than its schema says.", field=name)


def too_deep() -> NoReturn:
    raise DecodeError(f"The payload is nested more than {MAX_DEPTH} levels deep.")


def missing(name: str) -> NoReturn:
    raise DecodeError(f"The payload has no {name!r}, which its schema requires.", field=name)


def no_choice(name: str, count: int) -> NoReturn:
    raise DecodeError(f"The union {name} has {count} known fields set instead of one.")


def unwritten(name: str) -> NoReturn:
    raise EncodeError(f"The value has no {name!r}, which its schema requires.", field=name)


def out_of_range(bits: int, name: str) -> NoReturn:
    raise EncodeError(f"The number does not fit {bits} bits.", field=name)


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A size: a varint of at most 32 bits."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 2**31 - 1:
                raise DecodeError(f"A size of {value} is too large.")
            return value, at
        shift += 7
        if shift > 28:
            raise DecodeError("A size is too large.")


def zigzag(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number in zigzag form that fits so many bits."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise DecodeError("A number is too long.")
    if value >> bits:
        raise DecodeError(f"A number does not fit {bits} bits.")
    return (value >> 1) ^ -(value & 1), at


def put_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def raw(value: Any) -> Any:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{type(value).__name__} is not bytes")
    return value


def put_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} is not a bool")
    return value


def listed(value: Any) -> Any:
    if isinstance(value, str | bytes | dict):
        raise TypeError(f"{type(value).__name__} is not a list")
    return value


def ordered(value: Any) -> Any:
    """The parts of a set in an order that does not change from run to run."""
    if not isinstance(value, set | frozenset):
        return listed(value)
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


Skip = Callable[[bytes, int, int, int], int]


def skip_compact(data: bytes, at: int, code: int, depth: int) -> int:
    """Pass over a value; the place behind it."""
    if depth > MAX_DEPTH:
        too_deep()
    if code in (1, 2):
        return at
    if code == 3:
        at += 1
    elif code in (4, 5, 6):
        at = zigzag(data, at, 64)[1]
    elif code == 7:
        at += 8
    elif code == 8:
        size, at = unsigned(data, at)
        at += size
    elif code in (9, 10):
        head = data[at]
        size, at = (head >> 4, at + 1) if head < 0xF0 else unsigned(data, at + 1)
        at = _skip_parts(data, at, size, (head & 15,), depth)
    elif code == 11:
        size, at = unsigned(data, at)
        if size:
            at = _skip_parts(data, at + 1, size, (data[at] >> 4, data[at] & 15), depth)
    elif code == 12:
        while (head := data[at]) & 15:
            at += 1
            if head < 16:
                at = zigzag(data, at, 16)[1]
            at = skip_compact(data, at, head & 15, depth + 1)
        at += 1
    elif code == 13:
        at += 16
    else:
        raise DecodeError(f"The payload has a field of the unknown type {code}.")
    if at > len(data):
        truncated()
    return at


def _skip_parts(data: bytes, at: int, size: int, codes: tuple[int, ...], depth: int) -> int:
    if size > len(data) - at:
        truncated()
    for _ in range(size):
        for code in codes:
            # Within a container a bool is a byte of its own.
            at = at + 1 if code in (1, 2) else skip_compact(data, at, code, depth + 1)
    return at


_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}


def skip_binary(data: bytes, at: int, code: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        too_deep()
    if code in _FIXED:
        at += _FIXED[code]
    elif code == 11:
        size = read_i32(data, at)[0]
        at += 4 + positive(size, data, at)
    elif code == 12:
        while data[at]:
            at = skip_binary(data, at + 3, data[at], depth + 1)
        at += 1
    elif code in (13, 14, 15):
        parts = (data[at], data[at + 1]) if code == 13 else (data[at],)
        at += len(parts)
        size = positive(read_i32(data, at)[0], data, at)
        at += 4
        for _ in range(size):
            for part in parts:
                at = skip_binary(data, at, part, depth + 1)
    else:
        raise DecodeError(f"The payload has a field of the unknown type {code}.")
    if at > len(data):
        truncated()
    return at


def positive(size: int, data: bytes, at: int) -> int:
    """A size that the rest of the payload can hold."""
    if not 0 <= size <= len(data) - at:
        truncated()
    return size
