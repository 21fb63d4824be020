"""Which branch of a union a value belongs to. JSON carries no tag, so branches must be told apart by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.schema.binding import python_type
from dragoman.schema.markers import Primitive
from dragoman.schema.types import (
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
)

_PRIMITIVES: dict[Primitive, tuple[str, type | tuple[type, ...]]] = {
    Primitive.NULL: ("null", type(None)),
    Primitive.BOOLEAN: ("boolean", bool),
    Primitive.INT: ("integer", int),
    Primitive.LONG: ("integer", int),
    Primitive.FLOAT: ("number", float),
    Primitive.DOUBLE: ("number", float),
    Primitive.BYTES: ("string", (bytes, bytearray)),
    Primitive.STRING: ("string", str),
}


def kind(type: Type) -> str:
    """The JSON type of its values; finer where the text alone tells them apart."""
    match type:
        case PrimitiveType():
            return _PRIMITIVES[type.primitive][0]
        case EnumType():
            return "string:enum"
        case DateType() | TimeType() | TimestampType() if type.python is int:
            return "integer"
        case DateType():
            return "string:date"
        case TimeType():
            return "string:time"
        case TimestampType():
            return "string:local" if type.local else "string:timestamp"
        case DecimalType():
            return "string:decimal"
        case DurationType():
            return "string:duration"
        case UuidType():
            return "string:uuid"
        case FixedType():
            return "string"
        case ArrayType():
            return "array"
        case MapType():
            return "object"
        case RecordType():
            return "object:" + ",".join(sorted(each.name for each in type.fields))
        case UnionType():
            return "union"


def python(type: Type) -> type | tuple[type, ...]:
    """The classes of its values."""
    match type:
        case PrimitiveType():
            return _PRIMITIVES[type.primitive][1]
        case EnumType() | RecordType():
            return type.cls
        case DecimalType():
            return Decimal
        case FixedType():
            return bytes
        case MapType():
            return dict
        case UnionType():
            return tuple(each for branch in type.branches for each in _tuple(python(branch)))
        case _:
            return type.python


def narrowest_first(branches: Iterable[Type]) -> list[Type]:
    """A class before the one it derives from: a datetime is a date, too."""
    return sorted(branches, key=lambda branch: -len(python_type(branch).__mro__))


def _tuple(classes: type | tuple[type, ...]) -> tuple[type, ...]:
    return classes if isinstance(classes, tuple) else (classes,)


def refuse_ambiguous(union: UnionType) -> None:
    """Raises ``InvalidSchema`` for branches that look alike as JSON."""
    kinds = [kind(branch) for branch in union.branches]
    for index, one in enumerate(kinds):
        for other in kinds[index + 1 :]:
            bare = {one, other} & {"string", "object"}
            alike = one.partition(":")[0] == other.partition(":")[0]
            if one == other or (bare and alike):
                raise InvalidSchema(
                    f"A union of {one.partition(':')[0]} and {other.partition(':')[0]} cannot be told apart "
                    "in JSON.",
                    code="schema.ambiguous-union",
                    next="Use a record for one of them, with a field of its own.",
                )


Test = Callable[[Any], bool]


def test_of(branch: Type) -> Test:
    """Whether a JSON value may belong to a branch. Text is then tried by its decoder."""
    match kind(branch).partition(":")[0]:
        case "null":
            return lambda value: value is None
        case "boolean":
            return lambda value: value is True or value is False
        case "integer":
            return lambda value: type(value) is int
        case "number":
            return lambda value: type(value) is float or type(value) is int
        case "string":
            return lambda value: type(value) is str
        case "array":
            return lambda value: type(value) is list
        case _:
            return lambda value: type(value) is dict


def exact_test_of(branch: RecordType) -> Test:
    """Whether an object has just the fields of a record, as our own encoder writes them."""
    names = {each.name for each in branch.fields}
    return lambda value: type(value) is dict and value.keys() == names
