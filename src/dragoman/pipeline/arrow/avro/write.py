"""Write Avro values one by one: for the few types that the vectorised writer does not know.

A writer takes a value in the form that ``rows`` reads, and adds its bytes to a buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

RowWriter = Callable[[Any, bytearray], None]

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def write_long(value: int, out: bytearray) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def write_null(value: None, out: bytearray) -> None:
    return None


def write_boolean(value: bool, out: bytearray) -> None:
    out.append(1 if value else 0)


def write_float(value: float, out: bytearray) -> None:
    out += _FLOAT.pack(value)


def write_double(value: float, out: bytearray) -> None:
    out += _DOUBLE.pack(value)


def write_bytes(value: bytes, out: bytearray) -> None:
    write_long(len(value), out)
    out += value


def write_raw(value: bytes, out: bytearray) -> None:
    out += value


PRIMITIVES: dict[str, RowWriter] = {
    "null": write_null,
    "boolean": write_boolean,
    "int": write_long,
    "long": write_long,
    "float": write_float,
    "double": write_double,
    "bytes": write_bytes,
    "string": write_bytes,
}


def enum_writer(symbols: Sequence[str]) -> RowWriter:
    numbers = {symbol: number for number, symbol in enumerate(symbols)}

    def write(value: str, out: bytearray) -> None:
        write_long(numbers[value], out)

    return write


def record_writer(fields: Sequence[tuple[str, RowWriter]]) -> RowWriter:
    def write(value: dict[str, Any], out: bytearray) -> None:
        for name, writer in fields:
            writer(value[name], out)

    return write


def array_writer(items: RowWriter) -> RowWriter:
    def write(value: Sequence[Any], out: bytearray) -> None:
        if value:
            write_long(len(value), out)
            for each in value:
                items(each, out)
        out.append(0)

    return write


def map_writer(values: RowWriter) -> RowWriter:
    def write(value: Sequence[tuple[bytes, Any]], out: bytearray) -> None:
        if value:
            write_long(len(value), out)
            for key, each in value:
                write_bytes(key, out)
                values(each, out)
        out.append(0)

    return write


def optional_writer(inner: RowWriter, null_first: bool) -> RowWriter:
    null, other = (0, 1) if null_first else (1, 0)

    def write(value: Any, out: bytearray) -> None:
        if value is None:
            write_long(null, out)
        else:
            write_long(other, out)
            inner(value, out)

    return write


def union_writer(branches: Sequence[RowWriter]) -> RowWriter:
    def write(value: dict[str, Any], out: bytearray) -> None:
        tag = value["tag"]
        write_long(tag, out)
        branches[tag](value[f"b{tag}"], out)

    return write
