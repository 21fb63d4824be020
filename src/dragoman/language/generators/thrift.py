"""Data types as Thrift structs and unions."""

from __future__ import annotations

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
    "int": "i32",
    "long": "i64",
    "float": "double",
    "double": "double",
    "string": "string",
    "raw": "binary",
    "void": "bool",
    "json": "string",
}


def thrift_schema(model: Model, name: str) -> str:
    """A file with the struct of a data type last, after all it needs."""
    known = definitions(model, name)
    ordered = [*(each for key, each in known.items() if key != name), known[name]]
    return "\n".join(_struct(definition) for definition in ordered)


def _struct(definition: Definition) -> str:
    word = "union" if definition.union else "struct"
    fields = [_field(field, number, definition.union) for number, field in enumerate(definition.fields, 1)]
    return f"{word} {definition.name} {{\n" + "".join(field + "\n" for field in fields) + "}\n"


def _field(field: Field, number: int, union: bool) -> str:
    optional = field.optional or field.group is not None
    word = "" if union else "optional " if optional else "required "
    note = f"  // {' '.join(field.original.split())}" if field.original != field.name else ""
    return f"  {number}: {word}{_type(field.type)} {field.name};{note}"


def _type(type: Type) -> str:
    match type:
        case Basic(name):
            return _TYPES[name]
        case Defined(name):
            return name
        case Listed(item):
            return f"list<{_type(item)}>"
    raise AssertionError(type)
