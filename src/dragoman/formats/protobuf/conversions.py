"""How each type of a record is kept in a Protobuf field: which fields it fits, and the way in and out."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from dragoman.formats.protobuf import values
from dragoman.formats.protobuf.shape import held_by
from dragoman.schema.binding import (
    AS_IT_IS,
    DAYS,
    Conversion,
    decimal_text,
    enum_conversion,
    fitting,
    sized,
    units_since_1970,
    uuid_bytes,
    uuid_text,
)
from dragoman.schema.markers import Primitive
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

F = FieldDescriptor

_INTEGERS = frozenset({F.CPPTYPE_INT32, F.CPPTYPE_INT64, F.CPPTYPE_UINT32, F.CPPTYPE_UINT64})
_FLOATS = frozenset({F.CPPTYPE_FLOAT, F.CPPTYPE_DOUBLE})
_FIRST_DAY = date(1970, 1, 1)


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
            return sized(type.size)
    return None


def _message(field: FieldDescriptor) -> str:
    return str(field.message_type.full_name) if field.message_type is not None else ""


def _primitive(primitive: Primitive, field: FieldDescriptor) -> Conversion | None:
    wrapper = values.SPECIAL.get(_message(field))
    if wrapper is not None and wrapper.read is values.read_wrapper:
        inner = held_by(field).fields_by_name["value"]
        return Conversion(wrapper.read, wrapper.write) if _primitive(primitive, inner) is not None else None
    if primitive in (Primitive.FLOAT, Primitive.DOUBLE) and field.type == F.TYPE_FLOAT:
        return Conversion(None, values.narrow)
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
    if field.enum_type is None:
        return None
    known = member_names(type)
    found = ((known[each.name], each.number) for each in field.enum_type.values if each.name in known)
    return enum_conversion(type, found)


def _decimal(type: DecimalType, field: FieldDescriptor) -> Conversion | None:
    if _message(field) == "confluent.type.Decimal":
        fit = fitting(type)
        return Conversion(values.read_decimal, lambda value: values.write_decimal(fit(value)))
    return decimal_text(type) if field.type == F.TYPE_STRING else None


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
                lambda value: values.read_timestamp(value).replace(tzinfo=None), values.write_local_timestamp
            )
        return Conversion(values.read_timestamp, values.write_timestamp)
    if message == "google.type.DateTime" and type.local and type.python is datetime:
        return Conversion(values.read_local, values.write_local)
    if field.cpp_type == F.CPPTYPE_INT64:
        return AS_IT_IS if type.python is int else units_since_1970(type.unit, type.local)
    return None


def _date(type: DateType, field: FieldDescriptor) -> Conversion | None:
    days = type.python is int
    if field.cpp_type in _INTEGERS:
        return AS_IT_IS if days else DAYS
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
        return uuid_text(type.python)
    return uuid_bytes(type.python) if field.type == F.TYPE_BYTES else None
