"""Which field of a refused value is at fault. Slow, and only asked after a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman.formats.thrift.binding import matched
from dragoman.formats.thrift.emission import Emission
from dragoman.formats.thrift.model import (
    Field,
    ListType,
    MapType,
    Requiredness,
    SetType,
    Struct,
    StructType,
    Type,
)
from dragoman.formats.thrift.writing import compile_writer
from dragoman.schema.types import RecordType

_MAX_DEPTH = 16


def faulty_field(struct: Struct, value: Any, emission: Emission, depth: int = 0) -> str | None:
    """The path of the first field that cannot be written by itself, such as ``order.items[2].price``."""
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return None
    fields = {field.name: field for field in struct.fields}
    for name, part in value.items():
        field = fields.get(name)
        if field is None:
            return str(name)
        try:
            compile_writer(_alone(field, struct), None, emission)(bytearray(), {name: part})
        except Exception:
            return f"{name}{_inside(field.type, part, emission, depth + 1) or ''}"
    return None


def faulty_attribute(struct: Struct, record: RecordType, value: object, emission: Emission) -> str | None:
    """The name of the first field of an instance that cannot be written by itself."""
    if not isinstance(value, record.cls):
        return None
    for field in record.fields:
        alone = _alone(matched(struct, record)[field.name], struct)
        write = compile_writer(alone, replace(record, fields=(field,)), emission)
        try:
            write(bytearray(), value)
        except Exception:
            return field.name
    return None


def _alone(field: Field, struct: Struct) -> Struct:
    """A struct that has only this field."""
    return replace(struct, kind="struct", fields=[replace(field, requiredness=Requiredness.OPTIONAL)])


def _inside(type: Type, part: Any, emission: Emission, depth: int) -> str | None:
    match type:
        case StructType():
            found = faulty_field(type.struct, part, emission, depth)
            return f".{found}" if found else None
        case ListType() | SetType() if isinstance(part, list | tuple):
            return _among(type.item, enumerate(part), emission, depth)
        case MapType() if isinstance(part, dict):
            return _among(type.value, part.items(), emission, depth)
    return None


def _among(type: Type, parts: Any, emission: Emission, depth: int) -> str | None:
    for key, each in parts:
        found = _inside(type, each, emission, depth)
        if found:
            return f"[{key!r}]{found}"
    return None
