"""Which field of a refused value is at fault. Slow, and only asked after a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from dragoman.formats.protobuf.plain import compile_plain_writer
from dragoman.formats.protobuf.records import compile_record_writer
from dragoman.formats.protobuf.shape import is_map, map_parts
from dragoman.formats.protobuf.values import SPECIAL
from dragoman.schema.types import RecordType

_MAX_DEPTH = 16


def faulty_field(message: Descriptor, value: object, depth: int = 0) -> str | None:
    """The path of the first field that cannot be written by itself, such as ``order.items[2].price``."""
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    write = compile_plain_writer(message)
    for name, part in value.items():
        if not isinstance(name, str):
            return repr(name)
        try:
            write({name: part})
        except Exception:
            field = message.fields_by_name.get(name)
            inner = _inside(field, part, depth + 1) if field is not None else None
            return name + (inner or "")
    return _missing(message, value)


def faulty_attribute(message: Descriptor, record: RecordType, value: object) -> str | None:
    """The name of the first field of an instance that cannot be written by itself."""
    if not isinstance(value, record.cls):
        return None
    for field in record.fields:
        write = compile_record_writer(message, replace(record, fields=(field,)))
        try:
            write(value)
        except Exception:
            return field.name
    return None


def _inside(field: FieldDescriptor, part: Any, depth: int) -> str | None:
    message = field.message_type
    if message is None or message.full_name in SPECIAL:
        return None
    if not field.is_repeated:
        found = faulty_field(message, part, depth)
        return f".{found}" if found else None
    inner: Descriptor | None = message
    parts: Iterable[tuple[Any, Any]] = enumerate(part) if isinstance(part, list | tuple) else ()
    if is_map(field):
        inner = map_parts(field)[1].message_type
        parts = part.items() if isinstance(part, Mapping) else ()
    for key, each in parts:
        found = faulty_field(inner, each, depth) if inner is not None else None
        if found:
            return f"[{key!r}].{found}"
    return None


def _missing(message: Descriptor, value: Mapping[str, Any]) -> str | None:
    required = (field.name for field in message.fields if field.is_required)
    return next((name for name in required if value.get(name) is None), None)
