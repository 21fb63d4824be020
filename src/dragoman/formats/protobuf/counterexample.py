"""Small messages, as JSON, that a writer may write."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from dragoman.formats.protobuf.shape import is_map, map_parts

_MAX_FIELDS = 50
_NUMBERS = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})


class _TooLarge(Exception):
    """The message would not be small, or has no end, since it requires itself."""


def example(message: Descriptor, fields: Sequence[FieldDescriptor], value: object = None) -> str | None:
    """A message with these fields set, and what else it requires. ``value`` goes into the last of them."""
    maker = _Maker()
    try:
        made = maker.message(message)
        for field in fields:
            given = value if field is fields[-1] else None
            made[field.name] = maker.field(field) if given is None else _given(field, given)
    except _TooLarge:
        return None
    return json.dumps(made)


class _Maker:
    def __init__(self) -> None:
        self.count = 0

    def message(self, message: Descriptor) -> dict[str, Any]:
        return {field.name: self.field(field) for field in message.fields if field.is_required}

    def field(self, field: FieldDescriptor) -> Any:
        self.count += 1
        if self.count > _MAX_FIELDS:
            raise _TooLarge
        if is_map(field):
            key, value = map_parts(field)
            return {_key(key): self.single(value)}
        return [self.single(field)] if field.is_repeated else self.single(field)

    def single(self, field: FieldDescriptor) -> Any:
        if field.message_type is not None:
            return self.message(field.message_type)
        return _scalar(field)


def _scalar(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "AQ=="
    if field.type == FieldDescriptor.TYPE_STRING:
        return "a"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    return 1.5 if field.cpp_type in _NUMBERS else 1


def _key(field: FieldDescriptor) -> str:
    return str(_scalar(field)).lower()


def _given(field: FieldDescriptor, value: Any) -> Any:
    shown = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    if is_map(field):
        return {_key(map_parts(field)[0]): shown}
    return [shown] if field.is_repeated else shown
