"""How each type of a record is kept in a Protobuf field: which fields it fits, and the way in and out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from uuid import UUID

from google.protobuf.descriptor import FieldDescriptor

from dragoman.formats.protobuf import values
from dragoman.formats.protobuf.shape import held_by
from dragoman.schema.markers import Primitive, Unit
from dragoman.schema.types import (
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    PrimitiveType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

Convert = Callable[[Any], Any]
F = FieldDescriptor

_INTEGERS = frozenset({F.CPPTYPE_INT32, F.CPPTYPE_INT64, F.CPPTYPE_UINT32, F.CPPTYPE_UINT64})
_FLOATS = frozenset({F.CPPTYPE_FLOAT, F.CPPTYPE_DOUBLE})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)


class Conversion(NamedTuple):
    """``None`` where the value is taken as it is."""

    read: Convert | None = None
    write: Convert | None = None


AS_IT_IS = Conversion()


def conversion(type: Type, field: FieldDescriptor) -> Conversion | None:
    """How a single value of this type lives in this field; ``None`` if it cannot."""
    match type:
        case PrimitiveType():
            return _primitive(type.primitive, field)
        case EnumType():
            return _enum(type, field)
        case DecimalType():
            return _decimal(type, field)
        case TimestampType():
            return _timestamp(type, field)
        case DateType():
            return _date(type, field)
        case TimeType():
            return _time(type, field)
        case DurationType() if _message(field) == "google.protobuf.Duration" and type.python is timedelta:
            return Conversion(values.read_duration, values.write_duration)
        case UuidType():
            return _uuid(type, field)
        case FixedType() if field.type == F.TYPE_BYTES:
            check = _sized(type.size)
            return Conversion(check, check)
    return None


def _message(field: FieldDescriptor) -> str:
    return str(field.message_type.full_name) if field.message_type is not None else ""


def _primitive(primitive: Primitive, field: FieldDescriptor) -> Conversion | None:
    wrapper = values.SPECIAL.get(_message(field))
    if wrapper is not None and wrapper.read is values.read_wrapper:
        inner = held_by(field).fields_by_name["value"]
        return Conversion(wrapper.read, wrapper.write) if _primitive(primitive, inner) == AS_IT_IS else None
    match primitive:
        case Primitive.INT | Primitive.LONG:
            fits = field.cpp_type in _INTEGERS
        case Primitive.FLOAT | Primitive.DOUBLE:
            fits = field.cpp_type in _FLOATS
        case Primitive.BOOLEAN:
            fits = field.type == F.TYPE_BOOL
        case Primitive.STRING:
            fits = field.type == F.TYPE_STRING
        case Primitive.BYTES:
            fits = field.type == F.TYPE_BYTES
        case _:
            fits = False
    return AS_IT_IS if fits else None


def member_names(type: EnumType) -> dict[str, str]:
    """From the names that a schema may use for a member to the member's own."""
    prefix = "".join("_" + c if c.isupper() and at else c for at, c in enumerate(type.names.name)).upper()
    names = {f"{prefix}_{symbol}": symbol for symbol in type.symbols}
    return names | {symbol: symbol for symbol in type.symbols}


def _enum(type: EnumType, field: FieldDescriptor) -> Conversion | None:
    enum = field.enum_type
    if enum is None:
        return None
    known = member_names(type)
    members = {value.number: type.cls[known[value.name]] for value in reversed(enum.values)
               if value.name in known}  # fmt: skip
    numbers = {type.cls[known[value.name]]: value.number for value in reversed(enum.values)
               if value.name in known}  # fmt: skip
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


def _decimal(type: DecimalType, field: FieldDescriptor) -> Conversion | None:
    smallest = Decimal(1).scaleb(-type.scale)

    def fitting(value: Any) -> Decimal:
        if not isinstance(value, Decimal) or not value.is_finite():
            raise ValueError(f"{value!r} is not a finite Decimal.")
        try:
            exact = value.quantize(smallest)
        except InvalidOperation:
            raise ValueError(f"{value} has more than {type.precision} digits.") from None
        if exact != value or len(exact.as_tuple().digits) > type.precision:
            raise ValueError(f"{value} does not fit decimal({type.precision}, {type.scale}).")
        return exact

    if _message(field) == "confluent.type.Decimal":
        return Conversion(values.read_decimal, lambda value: values.write_decimal(fitting(value)))
    if field.type == F.TYPE_STRING:
        return Conversion(_decimal_of_text, lambda value: format(fitting(value), "f"))
    return None


def _decimal_of_text(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a decimal.") from None


def _timestamp(type: TimestampType, field: FieldDescriptor) -> Conversion | None:
    message = _message(field)
    scale = 10**9 // type.unit.per_second
    if message == "google.protobuf.Timestamp":
        if type.python is int:
            return Conversion(
                lambda value: values.read_nanos(value) // scale,
                lambda value: values.write_nanos(value * scale),
            )
        if type.local:
            return Conversion(
                lambda value: values.read_timestamp(value).replace(tzinfo=None), values.write_timestamp
            )
        return Conversion(values.read_timestamp, values.write_timestamp)
    if message == "google.type.DateTime" and type.local and type.python is datetime:
        return Conversion(values.read_local, values.write_local)
    if field.cpp_type == F.CPPTYPE_INT64:
        return AS_IT_IS if type.python is int else _counted(type.unit, type.local)
    return None


def _counted(unit: Unit, local: bool) -> Conversion:
    """A time as a bare number of units since 1970."""
    epoch = _EPOCH.replace(tzinfo=None) if local else _EPOCH
    micros = timedelta(microseconds=1)
    per_second = unit.per_second

    def read(number: int) -> datetime:
        return epoch + timedelta(microseconds=number * 10**6 // per_second)

    def write(value: datetime) -> int:
        moment = value if local or value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - epoch) // micros * per_second // 10**6

    return Conversion(read, write)


def _date(type: DateType, field: FieldDescriptor) -> Conversion | None:
    days = type.python is int
    if field.cpp_type in _INTEGERS:
        if days:
            return AS_IT_IS
        return Conversion(
            lambda number: _FIRST_DAY + timedelta(days=number), lambda value: (value - _FIRST_DAY).days
        )
    if _message(field) != "google.type.Date":
        return None
    if days:
        return Conversion(
            lambda value: (values.read_date(value) - _FIRST_DAY).days,
            lambda number: values.write_date(_FIRST_DAY + timedelta(days=number)),
        )
    return Conversion(values.read_date, values.write_date)


def _time(type: TimeType, field: FieldDescriptor) -> Conversion | None:
    if _message(field) != "google.type.TimeOfDay":
        return None
    if type.python is time:
        return Conversion(values.read_time, values.write_time)
    per_second = type.unit.per_second

    def read(message: Any) -> int:
        seconds = message.hours * 3600 + message.minutes * 60 + message.seconds
        return int(seconds * per_second + message.nanos * per_second // 10**9)

    def write(number: int) -> dict[str, int]:
        seconds, rest = divmod(number, per_second)
        hours, seconds = divmod(seconds, 3600)
        return {
            "hours": hours,
            "minutes": seconds // 60,
            "seconds": seconds % 60,
            "nanos": rest * (10**9 // per_second),
        }

    return Conversion(read, write)


def _uuid(type: UuidType, field: FieldDescriptor) -> Conversion | None:
    if field.type == F.TYPE_STRING:
        return AS_IT_IS if type.python is str else Conversion(UUID, str)
    if field.type != F.TYPE_BYTES:
        return None
    if type.python is str:
        return Conversion(lambda raw: str(UUID(bytes=raw)), lambda text: UUID(text).bytes)
    return Conversion(lambda raw: UUID(bytes=raw), lambda value: value.bytes)


def _sized(size: int) -> Convert:
    def check(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes instead of {size}.")
        return value

    return check
