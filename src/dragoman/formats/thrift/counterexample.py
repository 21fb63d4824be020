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

_MAX_FIELDS = 50
_SAMPLES: dict[Base, Any] = {
    Base.BOOL: True,
    Base.DOUBLE: 1.5,
    Base.STRING: "a",
    Base.BINARY: "/w==",
    Base.UUID: "00000000-0000-0000-0000-000000000001",
}


class _TooLarge(Exception):
    """The message would not be small, or has no end, since it requires itself."""


def example(struct: Struct, field: Field | None = None, value: object = None) -> str | None:
    """A message with this field set, and what else it requires."""
    maker = _Maker()
    try:
        made = maker.struct(struct) if field is None or struct.kind != "union" else {}
        if field is not None:
            made[field.name] = maker.sample(field.type) if value is None else _shown(value)
    except _TooLarge:
        return None
    return json.dumps(made)


def _shown(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


class _Maker:
    def __init__(self) -> None:
        self.count = 0

    def struct(self, struct: Struct) -> dict[str, Any]:
        needed = [field for field in struct.fields if field.requiredness is Requiredness.REQUIRED]
        if struct.kind == "union":
            needed = struct.fields[:1]
        return {field.name: self.sample(field.type) for field in needed}

    def sample(self, type: Type) -> Any:
        self.count += 1
        if self.count > _MAX_FIELDS:
            raise _TooLarge
        match type:
            case Base():
                return _SAMPLES.get(type, 1)
            case EnumType():
                return type.enum.members[-1].name
            case StructType():
                return self.struct(type.struct)
            case ListType() | SetType():
                return [self.sample(type.item)]
            case MapType():
                return {str(self.sample(type.key)): self.sample(type.value)}
