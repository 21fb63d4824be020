"""Between datums and records, both ways, by the types of the record.

A record is one datum per field; a list is data named ``item``; a map is data named by its keys. What is
``None`` is left out where reading gives ``None`` back, and elsewhere is a datum with the check ``null`` and
no data. Where several types are possible, the check names the one that was written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

from dragoman.core.errors import DecodeError, DragomanError, EncodeError, MessageError
from dragoman.gateway.envelope.model import Datum
from dragoman.gateway.envelope.texts import Text, text_of
from dragoman.gateway.limits import LIMITS
from dragoman.schema.binding import branches, constructor, python_type
from dragoman.schema.constraining import checker
from dragoman.schema.records import describe
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    Field,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
    is_null,
)

T = TypeVar("T")

ITEM = "item"
NULL = "null"
_UNFIT = (ValueError, TypeError, AttributeError)


def to_data(record: object) -> list[Datum]:
    """The datums of a record. Raises ``EncodeError`` and ``ConstraintViolated``."""
    return _write_record(describe(type(record)), record, "", 1)


def from_data(data: Sequence[Datum], cls: type[T]) -> T:
    """The record of these datums; unknown ones are passed over.

    Raises ``DecodeError`` and ``ConstraintViolated``.
    """
    found: T = _read_record(describe(cls), data, "", 1)
    return found


def _write_record(type: RecordType, record: Any, place: str, depth: int) -> list[Datum]:
    if not isinstance(record, type.cls):
        raise EncodeError(f"A {type.names.name} is needed.", field=place)
    written = []
    for field in type.fields:
        value = getattr(record, field.attribute)
        if value is None and _missing(field) is None:
            continue
        written.append(_write(field.type, field.name, value, _at(place, field.name), depth))
    return written


def _write(type: Type, name: str, value: Any, place: str, depth: int) -> Datum:
    if depth > LIMITS.depth:
        raise EncodeError("The record is nested too deeply.", field=place)
    check: str | None = None
    if isinstance(type, UnionType):
        if value is None and type.optional:
            return Datum(field=name, check=NULL, value=[])
        possible = branches(type)
        type = _branch(possible, value, place)
        check = _label(type) if len(possible) > 1 else None
    try:
        _check(type, value, place)
        return Datum(field=name, check=check, value=_value(type, value, place, depth))
    except DragomanError:
        raise
    except _UNFIT as error:
        raise EncodeError(f"The value does not fit its type: {error}", field=place) from error


def _value(type: Type, value: Any, place: str, depth: int) -> str | list[Datum]:
    match type:
        case RecordType():
            return _write_record(type, value, place, depth + 1)
        case ArrayType():
            if not isinstance(value, type.python):
                raise TypeError(f"{type.python.__name__} is needed.")
            return [_write(type.items, ITEM, each, f"{place}[]", depth + 1) for each in value]
        case MapType():
            return [
                _write(type.values, _key(key), each, f"{place}[]", depth + 1) for key, each in value.items()
            ]
    return _text(type).write(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError("The keys of a map are texts.")
    return key


def _branch(possible: Sequence[Type], value: Any, place: str) -> Type:
    """The branch of exactly the value's class, else one that takes it."""
    exact = (branch for branch in possible if type(value) is _python(branch))
    found = next(exact, None) or next((each for each in possible if isinstance(value, _python(each))), None)
    if found is not None:
        return found
    raise EncodeError(f"No type of the union takes {type(value).__name__}.", field=place)


def _python(type: Type) -> Any:
    if isinstance(type, ArrayType):
        return type.python
    return dict if isinstance(type, MapType) else python_type(type)


_KINDS: dict[type, str] = {
    DecimalType: "decimal",
    DateType: "date",
    TimeType: "time",
    TimestampType: "timestamp",
    UuidType: "uuid",
    DurationType: "duration",
    ArrayType: "array",
    MapType: "map",
}


def _label(type: Type) -> str:
    if isinstance(type, PrimitiveType):
        return type.primitive.value
    if isinstance(type, RecordType | EnumType | FixedType):
        return type.names.full
    return _KINDS[type.__class__]


def _read_record(type: RecordType, data: Sequence[Datum], place: str, depth: int) -> Any:
    if depth > LIMITS.depth:
        raise DecodeError("The data is nested too deeply.", field=place)
    given = _by_name(data, place)
    arguments: dict[str, Any] = {}
    for field in type.fields:
        inner = _at(place, field.name)
        found = next((given[name] for name in (field.name, *field.aliases) if name in given), None)
        if found is not None:
            arguments[field.argument] = _read(field.type, found, inner, depth)
            continue
        value = _missing(field)
        if value is MISSING:
            raise DecodeError("The datum is missing.", field=inner)
        arguments[field.argument] = copy.deepcopy(value)
    return constructor(type)(**arguments)


def _by_name(data: Iterable[Datum], place: str) -> dict[str, Datum]:
    given: dict[str, Datum] = {}
    for each in data:
        if given.setdefault(each.field, each) is not each:
            raise DecodeError("The datum is there twice.", field=_at(place, each.field))
    return given


def _read(type: Type, datum: Datum, place: str, depth: int) -> Any:
    if isinstance(type, UnionType):
        if datum.check == NULL and datum.value == [] and type.optional:
            return None
        possible = branches(type)
        type = possible[0] if len(possible) == 1 else _named(possible, datum.check, place)
    if is_null(type):
        if datum.check == NULL and datum.value == []:
            return None
        raise DecodeError("Nothing can stand here.", field=place)
    try:
        value = _parse(type, datum.value, place, depth)
        _check(type, value, place)
        return value
    except MessageError:
        raise
    except _UNFIT as error:
        raise DecodeError(f"The text does not fit its type: {error}", field=place) from error


def _parse(type: Type, value: str | list[Datum], place: str, depth: int) -> Any:
    composed = isinstance(type, RecordType | ArrayType | MapType)
    if isinstance(value, str):
        if composed:
            raise ValueError("data is needed, not text.")
        return _text(type).read(value)
    if not composed:
        raise ValueError("text is needed, not data.")
    if depth > LIMITS.depth:
        raise DecodeError("The data is nested too deeply.", field=place)
    if isinstance(type, RecordType):
        return _read_record(type, value, place, depth + 1)
    if isinstance(type, ArrayType):
        return type.python(_read(type.items, each, f"{place}[]", depth + 1) for each in value)
    assert isinstance(type, MapType)
    named = _by_name(value, place)
    return {name: _read(type.values, each, f"{place}[]", depth + 1) for name, each in named.items()}


def _named(possible: Sequence[Type], check: str | None, place: str) -> Type:
    for branch in possible:
        if _label(branch) == check:
            return branch
    labels = ", ".join(_label(branch) for branch in possible)
    raise DecodeError("The check does not say which type this is.", next=f"Use one of {labels}.", field=place)


def _missing(field: Field) -> Any:
    """What is read where the datum is not there."""
    if field.default is MISSING and isinstance(field.type, UnionType) and field.type.optional:
        return None
    return field.default


def _check(type: Type, value: Any, place: str) -> None:
    constraints = getattr(type, "constraints", ())
    if constraints:
        checker(place, constraints)(value)


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


@cache
def _text(type: Type) -> Text:
    return text_of(type)
