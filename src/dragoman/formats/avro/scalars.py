"""Expressions of a decoder for values without parts: first the bare value, then what it means."""

from __future__ import annotations

import datetime as dt
from uuid import UUID

from dragoman.formats.avro.binding import python_of
from dragoman.formats.avro.nodes import Fixed, Logical, Primitive
from dragoman.formats.avro.source import Source
from dragoman.schema import types
from dragoman.schema.types import Type

_MICROS = {"millis": "({}) * 1000", "micros": "{}", "nanos": "({}) // 1000"}
_IN_UNIT = {"millis": 1, "micros": 1000, "nanos": 1_000_000}


def bare(source: Source, kind: str, size: int = 0) -> str:
    """Add the lines that read a value; the expression of it. Texts go from ``i`` to ``j``."""
    match kind:
        case "null":
            return "None"
        case "boolean":
            source.add("i += 1")
            return "BOOLEANS[data[i - 1]]"
        case "int" | "long":
            number = source.name("n")
            source.add(f"{number} = data[i]; i += 1")
            with source.block(f"if {number} > 127:"):
                source.add(f"{number}, i = {'more' if kind == 'long' else 'more_int'}(data, i, {number})")
            return f"({number} >> 1) ^ -({number} & 1)"
        case "float" | "double":
            unpack = f"UNPACK_{kind.upper()}"
            source.scope[unpack] = source.scope[kind.upper()].unpack_from
            return f"{unpack}(data, i)[0]"
        case "fixed":
            source.add(f"j = i + {size}")
            return "data[i:j]"
        case _:
            number = source.name("n")
            source.add(f"{number} = data[i]")
            # The lowest bit is the sign, the highest says that more bytes follow: both are rare.
            with source.block(f"if {number} & 129:"):
                source.add("i, j = span(data, i)")
            with source.block("else:"):
                source.add(f"i += 1; j = i + ({number} >> 1)")
            return "data[i:j]"


def meaning(
    source: Source, writer: Primitive | Fixed, reader: Primitive | Fixed, type: Type | None, value: str
) -> str:
    """The value for the reader and its class, from the bare one of the writer."""
    wanted = python_of(type)
    logical = reader.logical
    raw = wanted in (int, str, bytes) or (isinstance(type, types.PrimitiveType))
    if writer.kind in ("int", "long") and logical is not None and writer.logical is not None:
        return _moment(source, writer.logical, logical, None if raw else wanted, value, raw)
    if logical is None or (raw and not isinstance(type, types.UuidType)):
        return _promoted(writer.kind, reader.kind, value)
    return _converted(source, writer, logical, wanted, value)


def _promoted(writer: str, reader: str, value: str) -> str:
    if writer == "string" and reader == "string":
        return f"{value}.decode()"
    if writer == "bytes" and reader == "string":
        return f"{value}.decode()"
    if writer in ("int", "long") and reader in ("float", "double"):
        return f"float({value})"
    return value


def _converted(
    source: Source, writer: Primitive | Fixed, logical: Logical, wanted: object, value: str
) -> str:
    match logical.name:
        case "decimal":
            scaled = writer.logical or logical
            return f"decimal_of({value}, {scaled.precision}, {scaled.scale})"
        case "uuid":
            source.scope["UUID"] = UUID
            if writer.kind == "fixed":
                return f"str(UUID(bytes={value}))" if wanted is str else f"UUID(bytes={value})"
            return f"uuid_str({value}.decode())" if wanted is str else f"UUID({value}.decode())"
        case "duration":
            return f"duration_of({value}){'.timedelta()' if wanted is dt.timedelta else ''}"
    return _moment(source, logical, logical, wanted, value, False)


def _moment(source: Source, writer: Logical, reader: Logical, wanted: object, value: str, raw: bool) -> str:
    """A date or time. Where the writer's unit is another, the value is brought to the reader's."""
    unit = writer.name.rpartition("-")[2]
    target = reader.name.rpartition("-")[2]
    keep = raw or (reader.name.endswith("nanos") and wanted is None)
    if keep:
        if unit == target or unit not in _IN_UNIT or target not in _IN_UNIT:
            return value
        have, want = _IN_UNIT[unit], _IN_UNIT[target]
        return f"({value}) * {want // have}" if want > have else f"({value}) // {have // want}"
    if reader.name == "date":
        source.scope["date_of"] = dt.date.fromordinal
        return f"date_of(({value}) + EPOCH_DAY)"
    micros = _MICROS[unit].format(value)
    if reader.name.startswith("time-"):
        return f"time_of({micros})"
    source.scope["timedelta"] = dt.timedelta
    epoch = "LOCAL_EPOCH" if reader.name.startswith("local") else "EPOCH"
    return f"{epoch} + timedelta(0, 0, {micros})"
