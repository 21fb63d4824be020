"""Read Avro values one by one, strictly. Slow and exact: the judge of rows that the fast path refuses,
and the only reader for the few types that it does not know.

A reader takes the bytes and a place in them, and gives the value and the place behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.pipeline.arrow.rejection import Malformed, Reason

RowReader = Callable[[bytes, int], tuple[Any, int]]

MAX_EMPTY_ITEMS = 100_000
"""Items without bytes cost nothing to write, so a short message could ask for any number of them."""

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def read_long(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        if at >= len(data):
            raise Malformed(Reason.TRUNCATED, "The message ends within a number.")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Malformed(Reason.NUMBER, "A number has more than ten bytes.")
    if value >= 1 << 64:
        raise Malformed(Reason.NUMBER, "A number has more than 64 bits.")
    return (value >> 1) ^ -(value & 1), at


def read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if not -(2**31) <= value < 2**31:
        raise Malformed(Reason.RANGE, "The number does not fit an int of 32 bits.")
    return value, at


def read_null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data):
        raise Malformed(Reason.TRUNCATED, "The message ends before a boolean.")
    if data[at] > 1:
        raise Malformed(Reason.BOOLEAN, "A boolean is neither 0 nor 1.")
    return data[at] == 1, at + 1


def _end(data: bytes, at: int, size: int) -> int:
    if size < 0:
        raise Malformed(Reason.LENGTH, "A length is negative.")
    if size > len(data) - at:
        raise Malformed(Reason.TRUNCATED, "The message is shorter than its lengths say.")
    return at + size


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    end = _end(data, at, size)
    return data[at:end], end


def read_text(data: bytes, at: int) -> tuple[bytes, int]:
    """As bytes, but known to be UTF-8."""
    raw, at = read_bytes(data, at)
    try:
        raw.decode()
    except UnicodeDecodeError:
        raise Malformed(Reason.TEXT, "The text is not valid UTF-8.") from None
    return raw, at


def read_float(data: bytes, at: int) -> tuple[float, int]:
    end = _end(data, at, 4)
    return _FLOAT.unpack_from(data, at)[0], end


def read_double(data: bytes, at: int) -> tuple[float, int]:
    end = _end(data, at, 8)
    return _DOUBLE.unpack_from(data, at)[0], end


PRIMITIVES: dict[str, RowReader] = {
    "null": read_null,
    "boolean": read_boolean,
    "int": read_int,
    "long": read_long,
    "float": read_float,
    "double": read_double,
    "bytes": read_bytes,
    "string": read_text,
}


def fixed_reader(size: int) -> RowReader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = _end(data, at, size)
        return data[at:end], end

    return read


def enum_reader(symbols: Sequence[str]) -> RowReader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise Malformed(Reason.ENUM, f"The enum has {len(symbols)} symbols, there is no number {index}.")
        return symbols[index], at

    return read


def record_reader(fields: Sequence[tuple[str, RowReader]]) -> RowReader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        row: dict[str, Any] = {}
        for name, reader in fields:
            try:
                row[name], at = reader(data, at)
            except Malformed as found:
                raise _under(name, found) from None
        return row, at

    return read


def _under(name: str, found: Malformed) -> Malformed:
    inner = found.rejection.path
    joined = name + inner if inner.startswith(("[", "{")) else f"{name}.{inner}" if inner else name
    return Malformed(found.rejection.code, found.rejection.reason, joined)


def _within(mark: str, found: Malformed) -> Malformed:
    inner = found.rejection.path
    joined = mark + inner if inner.startswith(("[", "{")) or not inner else f"{mark}.{inner}"
    return Malformed(found.rejection.code, found.rejection.reason, joined)


def _count(data: bytes, at: int, empty_items: bool, before: int) -> tuple[int, int]:
    """The number of items in the next block; a negative one is followed by the block's size."""
    count, at = read_long(data, at)
    if count < 0:
        count = -count
        size, at = read_long(data, at)
        _end(data, at, size)
    limit = MAX_EMPTY_ITEMS - before if empty_items else len(data) - at
    if count > limit:
        raise Malformed(Reason.LENGTH, f"The message is too short for {count} items.")
    return count, at


def array_reader(items: RowReader, empty_items: bool) -> RowReader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        try:
            while True:
                count, at = _count(data, at, empty_items, len(values))
                if count == 0:
                    return values, at
                for _ in range(count):
                    value, at = items(data, at)
                    values.append(value)
        except Malformed as found:
            raise _within("[]", found) from None

    return read


def map_reader(values: RowReader) -> RowReader:
    def read(data: bytes, at: int) -> tuple[list[tuple[bytes, Any]], int]:
        entries: list[tuple[bytes, Any]] = []
        try:
            while True:
                count, at = _count(data, at, False, 0)
                if count == 0:
                    return entries, at
                for _ in range(count):
                    key, at = read_text(data, at)
                    value, at = values(data, at)
                    entries.append((key, value))
        except Malformed as found:
            raise _within("{}", found) from None

    return read


def _branch(data: bytes, at: int, count: int) -> tuple[int, int]:
    index, at = read_long(data, at)
    if not 0 <= index < count:
        raise Malformed(Reason.UNION, f"The union has {count} branches, there is no number {index}.")
    return index, at


def optional_reader(value: RowReader, null_first: bool) -> RowReader:
    null = 0 if null_first else 1

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _branch(data, at, 2)
        return (None, at) if index == null else value(data, at)

    return read


def union_reader(branches: Sequence[RowReader]) -> RowReader:
    """Values are marked with their branch: ``{"tag": 1, "b1": value}``."""

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        index, at = _branch(data, at, len(branches))
        value, at = branches[index](data, at)
        return {"tag": index, f"b{index}": value}, at

    return read


def slice_reader(value: RowReader) -> RowReader:
    """The bytes of a value, checked but not turned into anything."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        _, end = value(data, at)
        return data[at:end], end

    return read


def skip_reader(value: RowReader) -> RowReader:
    """Past a value that nobody wants."""

    def read(data: bytes, at: int) -> tuple[None, int]:
        return None, value(data, at)[1]

    return read
