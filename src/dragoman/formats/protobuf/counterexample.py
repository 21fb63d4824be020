"""Small messages, as JSON, that a writer may write."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from dragoman.formats.protobuf.shape import is_map, map_parts

_MAX_DEPTH = 8
_NUMBERS = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})


def example(message: Descriptor, fields: Sequence[FieldDescriptor], value: object = None) -> str:
    """A message with these fields set, and what else it requires. ``value`` goes into the last of them."""
    made = _message(message, 0)
    for field in fields:
        given = value if field is fields[-1] else None
        made[field.name] = _field(field, 0) if given is None else _given(field, given)
    return json.dumps(made)


def _message(message: Descriptor, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        return {}
    return {field.name: _field(field, depth) for field in message.fields if field.is_required}


def _field(field: FieldDescriptor, depth: int) -> Any:
    if is_map(field):
        key, value = map_parts(field)
        return {str(_single(key, depth)).lower(): _single(value, depth)}
    return [_single(field, depth)] if field.is_repeated else _single(field, depth)


def _single(field: FieldDescriptor, depth: int) -> Any:
    if field.message_type is not None:
        return _message(field.message_type, depth + 1)
    if field.enum_type is not None:
        return field.enum_type.values[-1].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "AQ=="
    if field.type == FieldDescriptor.TYPE_STRING:
        return "a"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    return 1.5 if field.cpp_type in _NUMBERS else 1


def _given(field: FieldDescriptor, value: Any) -> Any:
    shown = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    if is_map(field):
        return {str(_single(map_parts(field)[0], 0)).lower(): shown}
    return [shown] if field.is_repeated else shown
