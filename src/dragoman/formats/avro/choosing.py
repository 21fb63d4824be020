"""Which branch of a union a value belongs to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro.binding import bound, is_null, python_of
from dragoman.formats.avro.nodes import MISSING, Array, Enum, Fixed, Map, Node, Primitive, Record, Union
from dragoman.formats.avro.source import Source
from dragoman.schema import types
from dragoman.schema.binding import python_type
from dragoman.schema.markers import Duration
from dragoman.schema.types import Type

Choice = tuple[int, Node, Type | None]
"""A branch by its index, and the part of the class that goes there."""

_LISTS = (list, tuple, set, frozenset)
_LOGICAL: dict[str, tuple[type, ...]] = {
    "date": (dt.date,),
    "time-millis": (dt.time,),
    "time-micros": (dt.time,),
    "decimal": (Decimal,),
    "uuid": (UUID,),
    "duration": (Duration, dt.timedelta),
}


def choices_of(node: Union, type: Type | None, path: str) -> list[Choice]:
    """The branches that values of the class can take, null first."""
    found: list[Choice] = []
    for index, branch in enumerate(node.branches):
        try:
            part = bound(type, branch, path)
        except IncompatibleSchema:
            continue
        if branch.kind == "null" or not is_null(part):
            found.append((index, branch, part))
    return sorted(found, key=lambda choice: choice[1].kind != "null")


def tests_for(source: Source, node: Union, choices: list[Choice], value: str) -> list[tuple[str, Choice]]:
    """Expressions that tell, in this order, whether a value of the class takes a branch."""
    ranked = sorted(choices, key=lambda choice: _rank(choice[2]))
    return [(_test_for(source, choice[1], choice[2], value, node), choice) for choice in ranked]


def _rank(part: Type | None) -> int:
    """The order of tests: a class before the one it derives from, since a datetime is a date, too."""
    return 0 if part is None else -len(python_type(part).__mro__)


def _test_for(source: Source, branch: Node, part: Type | None, value: str, union: Union) -> str:
    """An expression that tells whether a value of a class goes to this branch."""
    classes: Any
    match branch:
        case Record() if isinstance(part, types.RecordType):
            classes = part.cls
        case Enum() if isinstance(part, types.EnumType):
            classes = part.cls
        case Enum():
            return (
                f"{value}.__class__ is str and {value} in {source.bind(frozenset(branch.symbols), 'symbols')}"
            )
        case Array():
            classes = _LISTS
        case Map() | Record():
            classes = Mapping
        case Fixed() | Primitive():
            return _scalar_test(source, branch, part, value, {each.kind for each in union.branches})
        case Union():
            return "False"
    return f"isinstance({value}, {source.bind(classes, 'classes')})"


def _scalar_test(
    source: Source, branch: Primitive | Fixed, part: Type | None, value: str, kinds: set[str]
) -> str:
    if branch.logical is not None and python_of(part) not in (int, str, bytes):
        classes = source.bind(_LOGICAL.get(branch.logical.name, (dt.datetime,)), "classes")
        return f"isinstance({value}, {classes})"
    match branch.kind:
        case "boolean":
            return f"{value}.__class__ is bool"
        case "int":
            small = f" and -2147483648 <= {value} < 2147483648" if "long" in kinds else ""
            return f"{value}.__class__ is int{small}"
        case "long":
            return f"{value}.__class__ is int"
        case "float" if "double" in kinds:
            return "False"
        case "float" | "double":
            whole = f" or {value}.__class__ is int" if not kinds & {"int", "long"} else ""
            return f"{value}.__class__ is float{whole}"
        case "string":
            return f"isinstance({value}, str)"
        case "fixed":
            size = branch.size if isinstance(branch, Fixed) else 0
            return f"{value}.__class__ is bytes and len({value}) == {size}"
        case _:
            return f"isinstance({value}, (bytes, bytearray))"


def choose(union: Union, value: Any) -> int:
    """The branch for a plain value: the first that takes it, of records the one with most of its fields.

    A record that lacks some of them is only taken if nothing else is there, to be refused for what it lacks.
    """
    best, most, whole = -1, -1, False
    for index, branch in enumerate(union.branches):
        if not accepts(branch, value):
            continue
        if isinstance(branch, Record):
            common = sum(field.name in value for field in branch.fields)
            if common > most:
                best, most, whole = index, common, common == len(value)
        elif branch.kind == "float":
            wider = [at for at, each in enumerate(union.branches) if each.kind == "double"]
            return wider[0] if wider else index
        else:
            return best if whole else index
    return best


def accepts(node: Node, value: Any) -> bool:
    """Whether a plain value is one of this type."""
    match node:
        case Union():
            return any(accepts(branch, value) for branch in node.branches)
        case Array():
            return isinstance(value, _LISTS) and all(accepts(node.items, item) for item in value)
        case Map():
            return isinstance(value, Mapping) and all(
                isinstance(key, str) and accepts(node.values, item) for key, item in value.items()
            )
        case Record():
            return isinstance(value, Mapping) and all(
                accepts(field.type, value[field.name])
                if field.name in value
                else field.default is not MISSING
                for field in node.fields
            )
        case Enum():
            return isinstance(value, str) and value in node.symbols
        case Fixed() | Primitive():
            return _scalar(node, value)


def _scalar(node: Primitive | Fixed, value: Any) -> bool:
    if node.logical is not None:
        classes = _LOGICAL.get(node.logical.name, (dt.datetime,))
        if isinstance(value, classes) and not (classes == (dt.date,) and isinstance(value, dt.datetime)):
            return True
    match node.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 1 << (31 if node.kind == "int" else 63)
            return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case _:
            size = node.size if isinstance(node, Fixed) else None
            return isinstance(value, bytes | bytearray) and size in (None, len(value))
