"""Which part of a class a part of a schema belongs to.

The schema decides about the bytes, the class about the Python values. ``None`` in place of a class' type
means plain values: dict, list, str and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    label,
    simple,
)
from dragoman.schema import types
from dragoman.schema.markers import Primitive as Kind

_PRIMITIVES: Mapping[Kind, tuple[str, ...]] = {
    Kind.NULL: ("null",),
    Kind.BOOLEAN: ("boolean",),
    Kind.INT: ("int", "long"),
    Kind.LONG: ("int", "long"),
    Kind.FLOAT: ("float", "double"),
    Kind.DOUBLE: ("float", "double"),
    Kind.BYTES: ("bytes", "fixed"),
    Kind.STRING: ("string", "enum"),
}


def fits(type: types.Type | None, node: Node) -> bool:
    """Whether values of the class' type can be values of the schema's."""
    logical = node.logical.name if isinstance(node, Primitive | Fixed) and node.logical else ""
    match type:
        case None:
            return True
        case types.UnionType():
            return isinstance(node, Union) or any(fits(branch, node) for branch in type.branches)
        case _ if isinstance(node, Union):
            return any(fits(type, branch) for branch in node.branches)
        case types.PrimitiveType():
            return node.kind in _PRIMITIVES[type.primitive]
        case types.DecimalType():
            return logical == "decimal"
        case types.DateType() | types.TimeType() | types.TimestampType() if type.python is int:
            return node.kind in ("int", "long")
        case types.DateType():
            return logical == "date"
        case types.TimeType():
            return logical.startswith("time-")
        case types.TimestampType():
            return logical.startswith("local-timestamp" if type.local else "timestamp")
        case types.UuidType():
            return logical == "uuid" or (type.python is str and node.kind == "string")
        case types.DurationType():
            return logical == "duration"
        case types.FixedType():
            return node.kind in ("fixed", "bytes")
        case types.EnumType():
            return isinstance(node, Enum)
        case types.ArrayType():
            return isinstance(node, Array)
        case types.MapType():
            return isinstance(node, Map)
        case types.RecordType():
            return isinstance(node, Record)


def bound(type: types.Type | None, node: Node, path: str) -> types.Type | None:
    """The part of the class for this node; out of a union the branch that fits best."""
    if isinstance(type, types.UnionType) and not isinstance(node, Union):
        fitting = [branch for branch in type.branches if fits(branch, node)]
        named = [branch for branch in fitting if _called(branch, node)]
        best = next(iter(named or fitting), None)
        if best is not None:
            return best
    elif fits(type, node):
        return type
    raise IncompatibleSchema(
        f"{path or 'The class'}: a value of the schema's type {label(node)} has no place in the class.",
        code="schema.class-mismatch",
        field=path or None,
    )


def _called(type: types.Type, node: Node) -> bool:
    """Whether a branch is meant for a named type, by its name or a former one."""
    if not isinstance(type, types.RecordType | types.EnumType) or not isinstance(node, Record | Enum):
        return False
    names = (type.names.name, *type.names.aliases)
    return any(simple(name) == simple(node.name) for name in names)


def is_null(type: types.Type | None) -> bool:
    return type is not None and types.is_null(type)


def python_of(type: types.Type | None) -> Any:
    """The Python type that the class wants for a scalar, ``None`` if it does not say."""
    match type:
        case types.DateType() | types.TimeType() | types.TimestampType():
            return type.python
        case types.UuidType() | types.DurationType():
            return type.python
        case types.PrimitiveType():
            return {"int": int, "long": int, "string": str, "bytes": bytes}.get(type.primitive.value)
        case types.FixedType():
            return bytes
        case _:
            return None


def constraints_of(type: types.Type | None) -> tuple[Any, ...]:
    return getattr(type, "constraints", ())


def parts_of(type: types.RecordType, node: Record) -> dict[str, types.Field]:
    """The fields of a class by the schema's names for them, which may be former ones of the class."""
    names = {field.name for field in node.fields}
    found: dict[str, types.Field] = {}
    for part in type.fields:
        name = next((each for each in (part.name, *part.aliases) if each in names), None)
        if name is not None:
            found.setdefault(name, part)
    return found


def refuse_homeless(type: types.RecordType, node: Record, parts: dict[str, types.Field]) -> None:
    """A field that one side has alone would be lost, or made up."""
    placed = {id(part) for part in parts.values()}
    for part in type.fields:
        if id(part) not in placed:
            raise IncompatibleSchema(
                f"{type.cls.__qualname__}.{part.attribute} has no place in {node.name}.",
                code="schema.class-mismatch",
                next="Register the schema of the class, or remove the field.",
                field=part.name,
            )
    for field in node.fields:
        if field.name not in parts and field.default is MISSING:
            raise IncompatibleSchema(
                f"{node.name}.{field.name} has no default, and {type.cls.__qualname__} has no such field.",
                code="schema.class-mismatch",
                field=field.name,
            )
