"""Data types as Protobuf messages (proto3)."""

from __future__ import annotations

import json
import re

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
    "bool": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "raw": "bytes",
    "void": "bool",
    "json": "string",
}


def protobuf_schema(model: Model, name: str) -> str:
    """A file with the message of a data type first, and then all it needs."""
    known = definitions(model, name)
    writer = _Writer(known)
    ordered = [known[name], *(each for key, each in known.items() if key != name)]
    messages = [writer.message(definition) for definition in ordered]
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", model.api.name.text).lower()
    messages += writer.lists.values()
    return f'syntax = "proto3";\n\npackage {package};\n\n' + "\n".join(messages)


class _Writer:
    def __init__(self, known: dict[str, Definition]) -> None:
        self.known = known
        self.lists: dict[str, str] = {}
        """Messages that wrap a list, where a list of lists or a list in a oneof is needed."""

    def message(self, definition: Definition) -> str:
        lines: list[str] = []
        group: int | None = None
        for number, field in enumerate(definition.fields, 1):
            if field.group != group:
                lines += ["  }"] if group is not None else []
                lines += [f"  oneof {_choice(definition, field.group)} {{"] if field.group is not None else []
                group = field.group
            lines.append(self.field(field, number))
        lines += ["  }"] if group is not None else []
        return f"message {definition.name} {{\n" + "".join(line + "\n" for line in lines) + "}\n"

    def field(self, field: Field, number: int) -> str:
        said = json.dumps(field.original, ensure_ascii=False)
        json_name = f" [json_name = {said}]" if field.original != field.name else ""
        if field.group is not None:
            return f"    {self.single(field.type)} {field.name} = {number}{json_name};"
        if isinstance(field.type, Listed):
            return f"  repeated {self.single(field.type.item)} {field.name} = {number}{json_name};"
        word = "optional " if field.optional else ""
        return f"  {word}{self.single(field.type)} {field.name} = {number}{json_name};"

    def single(self, type: Type) -> str:
        match type:
            case Basic(name):
                return _TYPES[name]
            case Defined(name):
                return name
            case Listed(item):
                return self._list(item)
        raise AssertionError(type)

    def _list(self, item: Type) -> str:
        inner = self.single(item)
        name = f"ListOf{inner[0].upper()}{inner[1:]}"
        while name in self.known:
            name += "_"
        self.lists[name] = f"message {name} {{\n  repeated {inner} items = 1;\n}}\n"
        return name


def _choice(definition: Definition, group: int | None) -> str:
    """A name for a oneof that no field has."""
    name = "choice" if not group else f"choice{group + 1}"
    while any(field.name == name for field in definition.fields):
        name += "_"
    return name
