"""Data types as Avro schemas."""

from __future__ import annotations

import json
from typing import Any

from dragoman.language.generators.definitions import (
    Basic,
    Defined,
    Definition,
    Field,
    Listed,
    Type,
    definitions,
)
from dragoman.language.model import Model

_TYPES = {
    "bool": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "raw": "bytes",
    "void": "null",
    "json": "string",
}


def avro_schema(model: Model, name: str) -> str:
    """The schema of a data type, with all it needs inside."""
    document = _Writer(definitions(model, name), model.api.name.text).named(name)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


class _Writer:
    """A name is spelt out where it first occurs, and only named afterwards."""

    def __init__(self, known: dict[str, Definition], namespace: str) -> None:
        self.known = known
        self.namespace = namespace
        self.written: set[str] = set()

    def named(self, name: str) -> Any:
        definition = self.known[name]
        if definition.union:
            return _flat([self.type(field.type) for field in definition.fields])
        if name in self.written:
            return name
        first = not self.written
        self.written.add(name)
        head = {"type": "record", "name": name} | ({"namespace": self.namespace} if first else {})
        return head | {"fields": [self.field(field) for field in definition.fields]}

    def type(self, type: Type) -> Any:
        match type:
            case Basic(name):
                return _TYPES[name]
            case Defined(name):
                return self.named(name)
            case Listed(item):
                return {"type": "array", "items": self.type(item)}
        raise AssertionError(type)

    def field(self, field: Field) -> dict[str, Any]:
        type = self.type(field.type)
        written: dict[str, Any] = {"name": field.name, "type": type}
        if field.original != field.name:
            written["doc"] = f"In the model: {field.original}"
        if field.optional and isinstance(field.type, Listed) and field.group is None:
            written["default"] = []
        elif field.optional or field.group is not None:
            written["type"] = _flat(["null", type])
            written["default"] = None
        return written


def _flat(types: list[Any]) -> list[Any]:
    """A union has no union in it, and each type once."""
    found: list[Any] = []
    for type in types:
        for each in type if isinstance(type, list) else [type]:
            if each not in found:
                found.append(each)
    return found
