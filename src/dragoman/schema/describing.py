"""From an annotation, with its markers, to the type that it means."""

from __future__ import annotations

import datetime
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.schema import markers
from dragoman.schema.markers import Constraint, Duration, Length, Max, Min, Pattern, Primitive
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    MapType,
    Names,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
    is_null,
)

Named = Callable[[type], RecordType | EnumType]
"""Describes a record or enum class; comes from ``dragoman.schema.records``, which remembers them."""

_ARRAYS: dict[Any, type] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: list,
    Iterable: list,
    Set: frozenset,
}
_KNOWN = (
    "Use bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, UUID, an Enum, list, tuple, "
    "set, dict, a record, or a union of these."
)
_MAPS = (dict, Mapping, MutableMapping)


class Describer:
    """Describes the annotations of one field; ``place`` and ``name`` are for errors and unnamed types."""

    def __init__(self, named: Named, place: str, name: str, namespace: str = "") -> None:
        self.named = named
        self.place = place
        self.name = name
        self.namespace = namespace

    def type_of(self, annotation: Any, marks: tuple[Any, ...] = ()) -> Type:
        annotation, marks = unwrapped(annotation, marks)
        origin = typing.get_origin(annotation)
        if origin in (typing.Union, types.UnionType):
            return self._union(typing.get_args(annotation), marks)
        if origin is not None:
            return self._container(annotation, origin, typing.get_args(annotation), marks)
        if annotation is None or annotation is type(None):
            return PrimitiveType(Primitive.NULL)
        if not isinstance(annotation, type):
            raise self._unknown(annotation)
        return self._scalar(annotation, marks)

    def _union(self, arguments: tuple[Any, ...], marks: tuple[Any, ...]) -> UnionType:
        branches: list[Type] = []
        for argument in arguments:
            null = argument is None or argument is type(None)
            branch = self.type_of(argument, () if null else marks)
            branches += branch.branches if isinstance(branch, UnionType) else (branch,)
        branches.sort(key=lambda branch: not is_null(branch))
        return UnionType(tuple(branches))

    def _container(self, annotation: Any, origin: Any, arguments: Any, marks: tuple[Any, ...]) -> Type:
        constraints = self._constraints(marks, Length)
        if origin in _MAPS:
            if arguments[0] is not str:
                raise self._unknown(annotation, "The keys of a map are str.")
            return MapType(self.type_of(arguments[1]), constraints)
        if origin in _ARRAYS:
            if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
                raise self._unknown(annotation, "Write tuple[X, ...], or use a record.")
            return ArrayType(self.type_of(arguments[0]), _ARRAYS[origin], constraints)
        if isinstance(origin, type):
            return self._scalar(annotation, marks)
        raise self._unknown(annotation)

    def _scalar(self, cls: Any, marks: tuple[Any, ...]) -> Type:
        logical = self._logical(cls, marks)
        if logical is not None:
            return logical
        if cls is bool:
            return PrimitiveType(Primitive.BOOLEAN)
        if cls is int or cls is float:
            default = Primitive.LONG if cls is int else Primitive.DOUBLE
            width = marker(marks, markers.Width)
            return PrimitiveType(width.primitive if width else default, self._constraints(marks, Min, Max))
        if cls is str:
            return PrimitiveType(Primitive.STRING, self._constraints(marks, Length, Pattern))
        if cls is bytes or cls is bytearray:
            return PrimitiveType(Primitive.BYTES, self._constraints(marks, Length))
        if isinstance(cls, type) and issubclass(cls, Enum):
            described = self.named(cls)
            fallback = marker(marks, markers.Fallback)
            if fallback and isinstance(described, EnumType):
                return replace(described, fallback=fallback.member.name)
            return described
        if cls in _ARRAYS or cls in _MAPS:
            raise self._unknown(cls, f"Say what is in it: {cls.__name__}[...].")
        try:
            return self.named(cls)
        except InvalidSchema as error:
            if error.code == "schema.not-a-record":
                raise self._unknown(cls) from error
            raise

    def _logical(self, cls: Any, marks: tuple[Any, ...]) -> Type | None:
        if cls is Decimal:
            return self._decimal(marks)
        if cls is datetime.datetime or (cls is int and marker(marks, markers.timestamp)):
            mark = marker(marks, markers.timestamp) or markers.timestamp()
            return TimestampType(mark.unit, mark.local, cls, self._constraints(marks, Min, Max))
        if cls is datetime.date or (cls is int and marker(marks, markers.date)):
            return DateType(cls, self._constraints(marks, Min, Max))
        if cls is datetime.time or (cls is int and marker(marks, markers.timeofday)):
            return self._time(cls, marks)
        if cls is uuid.UUID or (cls is str and marker(marks, markers.uuid)):
            mark = marker(marks, markers.uuid) or markers.uuid()
            return UuidType(cls, self._names(mark.name, mark.namespace) if mark.binary else None)
        if cls is datetime.timedelta or cls is Duration:
            mark = marker(marks, markers.duration) or markers.duration()
            return DurationType(self._names(mark.name, mark.namespace), cls)
        fixed = marker(marks, markers.fixed)
        if cls is bytes and fixed:
            return FixedType(self._names(fixed.name, fixed.namespace), fixed.size)
        return None

    def _decimal(self, marks: tuple[Any, ...]) -> DecimalType:
        mark = marker(marks, markers.decimal)
        if mark is None:
            raise self._unknown(Decimal, "Say its size: Annotated[Decimal, decimal(precision, scale)].")
        if mark.precision < 1 or not 0 <= mark.scale <= mark.precision:
            raise self._unknown(Decimal, "It needs 0 < precision and 0 <= scale <= precision.")
        names = self._names(mark.name, mark.namespace) if mark.size is not None else None
        limits = self._constraints(marks, Min, Max)
        return DecimalType(mark.precision, mark.scale, mark.size, names, limits)

    def _time(self, cls: Any, marks: tuple[Any, ...]) -> TimeType:
        mark = marker(marks, markers.timeofday) or markers.timeofday()
        if mark.unit is markers.Unit.NANOS:
            raise self._unknown(cls, "A time of the day has milliseconds or microseconds.")
        return TimeType(mark.unit, cls, self._constraints(marks, Min, Max))

    def _names(self, name: str | None, namespace: str) -> Names:
        return Names(name, namespace) if name else Names(self.name, namespace or self.namespace)

    def _constraints(self, marks: tuple[Any, ...], *allowed: type) -> tuple[Constraint, ...]:
        found = [constraint for mark in marks for constraint in constraints_in(mark)]
        wrong = [constraint for constraint in found if not isinstance(constraint, allowed)]
        if wrong:
            raise InvalidSchema(
                f"{self.place}: {wrong[0]} does not fit this type.", code="schema.constraint", field=self.name
            )
        return tuple(found)

    def _unknown(self, annotation: Any, next: str = "") -> InvalidSchema:
        shown = getattr(annotation, "__name__", None) or repr(annotation)
        return InvalidSchema(
            f"{self.place}: {shown} has no type in a schema.",
            code="schema.unknown-annotation",
            next=next or _KNOWN,
            field=self.name,
        )


def unwrapped(annotation: Any, marks: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Without ``Annotated``, ``NewType`` and type aliases around it."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            marks = (*annotation.__metadata__, *marks)
            annotation = annotation.__origin__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, marks


def marker(marks: tuple[Any, ...], kind: type[Any]) -> Any:
    """The last marker of this kind: the outermost counts."""
    return next((mark for mark in reversed(marks) if isinstance(mark, kind)), None)


def doc_in(marks: tuple[Any, ...]) -> str | None:
    """What the field means, in our words or in those of ``msgspec.Meta``; the outermost counts."""
    for mark in reversed(marks):
        text = mark.text if isinstance(mark, markers.Doc) else getattr(mark, "description", None)
        if isinstance(text, str):
            return text
    return None


def constraints_in(mark: Any) -> tuple[Constraint, ...]:
    """Our own constraints, and those that pydantic and msgspec write with the usual attribute names."""
    if isinstance(mark, Min | Max | Length | Pattern):
        return (mark,)
    if isinstance(mark, type) or mark.__class__.__module__.partition(".")[0] == "dragoman":
        return ()

    def value(name: str) -> Any:
        return getattr(mark, name, None)

    found: list[Constraint] = []
    for name, exclusive in (("ge", False), ("gt", True)):
        if value(name) is not None:
            found.append(Min(value(name), exclusive))
    for name, exclusive in (("le", False), ("lt", True)):
        if value(name) is not None:
            found.append(Max(value(name), exclusive))
    if value("min_length") is not None or value("max_length") is not None:
        found.append(Length(value("min_length") or 0, value("max_length")))
    if isinstance(value("pattern"), str):
        found.append(Pattern(value("pattern")))
    return tuple(found)


def ordered(type: Type, default: Any) -> Type:
    """A union with the branch of the default first, as the formats want it."""
    if not isinstance(type, UnionType) or default is MISSING or default is None:
        return type
    first = next((branch for branch in type.branches if _takes(branch, default)), None)
    if first is None:
        return type
    return UnionType((first, *(branch for branch in type.branches if branch is not first)))


def _takes(branch: Type, value: Any) -> bool:
    match branch:
        case DecimalType():
            return isinstance(value, Decimal)
        case FixedType():
            return isinstance(value, bytes)
        case MapType():
            return isinstance(value, dict)
        case RecordType() | EnumType():
            return isinstance(value, branch.cls)
        case UnionType():
            return False
        case _:
            return type(value) is branch.python
