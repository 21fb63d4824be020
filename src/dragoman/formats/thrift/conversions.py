"""How each type of a record is kept in a Thrift value: which types it fits, and the way in and out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from uuid import UUID

from dragoman.formats.thrift.model import INTEGERS, Base, Enum, EnumType, Type
from dragoman.schema import types as neutral
from dragoman.schema.markers import Primitive, Unit

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class Conversion(NamedTuple):
    """``None`` where the value is taken as it is."""

    read: Convert | None = None
    write: Convert | None = None


AS_IT_IS = Conversion()
_PRIMITIVES: dict[Primitive, frozenset[Base]] = {
    Primitive.BOOLEAN: frozenset({Base.BOOL}),
    Primitive.INT: frozenset(INTEGERS),
    Primitive.LONG: frozenset(INTEGERS),
    Primitive.FLOAT: frozenset({Base.DOUBLE}),
    Primitive.DOUBLE: frozenset({Base.DOUBLE}),
    Primitive.STRING: frozenset({Base.STRING}),
    Primitive.BYTES: frozenset({Base.BINARY}),
}


def conversion(type: neutral.Type, stored: Type) -> Conversion | None:
    """How a single value of a record lives in a value of Thrift; ``None`` if it cannot."""
    if isinstance(type, neutral.EnumType):
        return _enum(type, stored.enum) if isinstance(stored, EnumType) else None
    if not isinstance(stored, Base):
        return None
    match type:
        case neutral.PrimitiveType():
            return AS_IT_IS if stored in _PRIMITIVES.get(type.primitive, ()) else None
        case neutral.DecimalType() if stored is Base.STRING:
            return Conversion(_decimal, lambda value: format(_fitting(type, value), "f"))
        case neutral.DateType() if stored in INTEGERS:
            return AS_IT_IS if type.python is int else Conversion(_read_day, _write_day)
        case neutral.TimeType() if stored in INTEGERS:
            return AS_IT_IS if type.python is int else _time(type.unit)
        case neutral.TimestampType() if stored is Base.I64:
            return AS_IT_IS if type.python is int else _timestamp(type.unit, type.local)
        case neutral.DurationType() if stored is Base.I64 and type.python is timedelta:
            return Conversion(
                lambda number: timedelta(microseconds=number), lambda value: value // _MICROSECOND
            )
        case neutral.UuidType():
            return _uuid(type, stored)
        case neutral.FixedType() if stored is Base.BINARY:
            check = _sized(type.size)
            return Conversion(check, check)
    return None


def _enum(type: neutral.EnumType, enum: Enum) -> Conversion:
    members = {
        each.number: type.cls[each.name] for each in reversed(enum.members) if each.name in type.symbols
    }
    numbers = {
        type.cls[each.name]: each.number for each in reversed(enum.members) if each.name in type.symbols
    }
    fallback = type.cls[type.fallback] if type.fallback else None

    def read(number: int) -> Any:
        member = members.get(number, fallback)
        if member is None:
            raise ValueError(f"{type.names.name} has no member for {number}.")
        return member

    def write(member: Any) -> int:
        try:
            return numbers[member]
        except (KeyError, TypeError):
            raise ValueError(f"{member!r} has no number in the enum {enum.name}.") from None

    return Conversion(read, write)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a decimal.") from None


def _fitting(type: neutral.DecimalType, value: Any) -> Decimal:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError(f"{value!r} is not a finite Decimal.")
    try:
        exact = value.quantize(Decimal(1).scaleb(-type.scale))
    except InvalidOperation:
        raise ValueError(f"{value} has more than {type.precision} digits.") from None
    if exact != value or len(exact.as_tuple().digits) > type.precision:
        raise ValueError(f"{value} does not fit decimal({type.precision}, {type.scale}).")
    return exact


def _read_day(number: int) -> date:
    return _FIRST_DAY + timedelta(days=number)


def _write_day(value: date) -> int:
    return (value - _FIRST_DAY).days


def _time(unit: Unit) -> Conversion:
    per_second = unit.per_second

    def read(number: int) -> time:
        seconds, rest = divmod(number, per_second)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 10**6 // per_second)

    def write(value: time) -> int:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * per_second + value.microsecond * per_second // 10**6

    return Conversion(read, write)


def _timestamp(unit: Unit, local: bool) -> Conversion:
    epoch = _EPOCH.replace(tzinfo=None) if local else _EPOCH
    per_second = unit.per_second

    def read(number: int) -> datetime:
        return epoch + timedelta(microseconds=number * 10**6 // per_second)

    def write(value: datetime) -> int:
        moment = value if local or value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - epoch) // _MICROSECOND * per_second // 10**6

    return Conversion(read, write)


def _uuid(type: neutral.UuidType, stored: Base) -> Conversion | None:
    text = type.python is str
    match stored:
        case Base.UUID:
            return Conversion(str, UUID) if text else AS_IT_IS
        case Base.STRING:
            return AS_IT_IS if text else Conversion(UUID, str)
        case Base.BINARY:
            if text:
                return Conversion(lambda raw: str(UUID(bytes=raw)), lambda value: UUID(value).bytes)
            return Conversion(lambda raw: UUID(bytes=raw), lambda value: value.bytes)
    return None


def _sized(size: int) -> Convert:
    def check(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes instead of {size}.")
        return value

    return check
