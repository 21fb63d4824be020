"""Data types as record classes."""

from __future__ import annotations

import builtins
import keyword

from dragoman.language.generators.definitions import (
    Basic,
    Defined,
    Definition,
    Field,
    Listed,
    Type,
    definition_of,
    definitions,
)
from dragoman.language.model import Model
from dragoman.language.shape import Named, shape_of
from dragoman.language.syntax import Message

_TYPES = {
    "bool": "bool",
    "int": "Int",
    "long": "Long",
    "float": "Float",
    "double": "Double",
    "string": "str",
    "raw": "bytes",
    "void": "bool",
    "json": "str",
}
_VALUES = {
    "bool": "False",
    "int": "0",
    "long": "0",
    "float": "0.0",
    "double": "0.0",
    "string": '""',
    "raw": 'b""',
    "void": "False",
    "json": '"null"',
}
_MARKERS = ("Double", "Float", "Int", "Long", "Name")
_TAKEN = frozenset(
    {
        *dir(builtins),
        *_MARKERS,
        *("Annotated", "Client", "controller", "endpoint", "field", "record"),
        *("AsyncExitStack", "DragomanError", "ENDPOINTS", "argparse", "asyncio", "main", "run", "sys"),
    }
)


def payload_record(message: Message) -> str:
    """The record class of a message's payload: its data type's, or one named after the message."""
    shape = shape_of(message.content.payload)
    return shape.name if isinstance(shape, Named) else f"{message.name.text}Payload"


def all_definitions(model: Model) -> dict[str, Definition]:
    """The records of all data types and of all payloads that have none."""
    known = dict(definitions(model, *model.types))
    for channel in model.channels.values():
        for message in channel.messages:
            name = payload_record(message)
            if name not in known:
                inline = definition_of(model, name, shape_of(message.content.payload))
                known |= {key: value for key, value in inline.items() if key not in known}
    return known


def records_module(model: Model, source: str) -> str:
    known = all_definitions(model)
    # Annotations are looked up when they are first needed, so the order does not matter; readers
    # like what is used before what uses it.
    body = "\n\n".join(_class(known, each, model.api.name.text) for each in known.values() if not each.union)
    used = [
        marker for marker in _MARKERS if f"{marker}(" in body or f": {marker}" in body or f"[{marker}" in body
    ]
    standard = "from dataclasses import field\n" if "field(" in body else ""
    standard += "from typing import Annotated\n" if "Annotated[" in body else ""
    standard += "\n" if standard else ""
    markers = f"from dragoman.schema.markers import {', '.join(used)}\n" if used else ""
    return (
        f'"""Records of {model.api.name.text}. Generated from {source}: do not edit."""\n\n'
        f"from __future__ import annotations\n\n{standard}from dragoman import record\n{markers}\n\n{body}"
    )


def _class(known: dict[str, Definition], definition: Definition, namespace: str) -> str:
    """Fields with a default come last, as constructors want it."""
    ordered = sorted(definition.fields, key=_has_default)
    lines = [_attribute(known, field) for field in ordered] or ["    pass"]
    name = class_name(definition.name)
    named = "" if name == definition.name else f'name="{definition.name}", '
    return f'@record({named}namespace="{namespace}")\nclass {name}:\n' + "\n".join(lines) + "\n"


def _has_default(field: Field) -> bool:
    return field.optional or field.group is not None


def _attribute(known: dict[str, Definition], field: Field) -> str:
    written = annotation(known, field.type)
    default = ""
    if _has_default(field):
        listed = isinstance(field.type, Listed) and field.group is None
        written = written if listed else f"{written} | None"
        default = " = field(default_factory=list)" if listed else " = None"
    name = python_name(field.name)
    if name != field.name:
        written = f'Annotated[{written}, Name("{field.name}")]'
    return f"    {name}: {written}{default}"


def class_name(name: str) -> str:
    """A name of the model as that of a class: the words that generated code uses itself are taken."""
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


def python_name(name: str) -> str:
    """An identifier of the schema languages as that of a field or a parameter."""
    bare = name.lstrip("_")
    if keyword.iskeyword(bare):
        return f"{bare}_"
    return bare if bare.isidentifier() else f"value_{bare}"


def annotation(known: dict[str, Definition], type: Type) -> str:
    match type:
        case Basic(name):
            return _TYPES[name]
        case Listed(item):
            return f"list[{annotation(known, item)}]"
        case Defined(name) if known[name].union:
            options = dict.fromkeys(annotation(known, field.type) for field in known[name].fields)
            return " | ".join(options)
        case Defined(name):
            return class_name(name)
    raise AssertionError(type)


def example(known: dict[str, Definition], name: str, given: dict[str, str] | None = None) -> str:
    """An expression for a value of a record, with some fields given."""
    return f"{class_name(name)}({', '.join(_arguments(known, name, given))})"


def example_statement(
    known: dict[str, Definition], before: str, name: str, given: dict[str, str] | None = None
) -> str:
    """A statement that makes an example, over several lines where it is long."""
    line = before + example(known, name, given)
    if len(line) <= 100:
        return line
    pad = " " * (len(before) - len(before.lstrip()))
    arguments = "".join(f"{pad}    {argument},\n" for argument in _arguments(known, name, given))
    return f"{before}{class_name(name)}(\n{arguments}{pad})"


def _arguments(known: dict[str, Definition], name: str, given: dict[str, str] | None) -> list[str]:
    parts = []
    for field in known[name].fields:
        if given and field.original in given:
            parts.append(f"{python_name(field.name)}={given[field.original]}")
        elif not _has_default(field):
            parts.append(f"{python_name(field.name)}={_value(known, field.type, (name,))}")
    return parts


def _value(known: dict[str, Definition], type: Type, above: tuple[str, ...]) -> str:
    match type:
        case Basic(name):
            return _VALUES[name]
        case Listed(_):
            return "[]"
        case Defined(name) if known[name].union:
            return _value(known, known[name].fields[0].type, above)
        case Defined(name) if name not in above:
            inner = (
                f"{python_name(field.name)}={_value(known, field.type, (*above, name))}"
                for field in known[name].fields
                if not _has_default(field)
            )
            return f"{class_name(name)}({', '.join(inner)})"
    return "None"
