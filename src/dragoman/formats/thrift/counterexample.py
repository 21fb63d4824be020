"""Small messages, as JSON, that a writer may write."""

from __future__ import annotations

import base64
import json
from typing import Any

from dragoman.formats.thrift.model import (
    Base,
    EnumType,
    Field,
    ListType,
    MapType,
    Requiredness,
    SetType,
    Struct,
    StructType,
    Type,
)

_MAX_DEPTH = 6
_SAMPLES: dict[Base, Any] = {
    Base.BOOL: True,
    Base.DOUBLE: 1.5,
    Base.STRING: "a",
    Base.BINARY: "/w==",
    Base.UUID: "00000000-0000-0000-0000-000000000001",
}


def example(struct: Struct, field: Field | None = None, value: object = None) -> str:
    """A message with this field set, and what else it requires."""
    made = _struct(struct, 0)
    if field is not None:
        if struct.kind == "union":
            made = {}
        made[field.name] = _sample(field.type, 0) if value is None else _shown(value)
    return json.dumps(made)


def _shown(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _struct(struct: Struct, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        return {}
    needed = [field for field in struct.fields if field.requiredness is Requiredness.REQUIRED]
    if struct.kind == "union":
        needed = struct.fields[:1]
    return {field.name: _sample(field.type, depth) for field in needed}


def _sample(type: Type, depth: int) -> Any:
    match type:
        case Base():
            return _SAMPLES.get(type, 1)
        case EnumType():
            return type.enum.members[-1].name
        case StructType():
            return _struct(type.struct, depth + 1)
        case ListType() | SetType():
            return [_sample(type.item, depth)]
        case MapType():
            return {str(_sample(type.key, depth)): _sample(type.value, depth)}
