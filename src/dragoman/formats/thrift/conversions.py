"""Which types of Thrift hold the types of a record, and how."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from dragoman.formats.thrift.model import INTEGERS, Base, EnumType, Type
from dragoman.schema import types as neutral
from dragoman.schema.binding import (
    AS_IT_IS,
    DAYS,
    MICROSECONDS,
    Conversion,
    decimal_text,
    enum_conversion,
    sized,
    units_of_day,
    units_since_1970,
    uuid_bytes,
    uuid_text,
)
from dragoman.schema.markers import Primitive

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
        if not isinstance(stored, EnumType):
            return None
        return enum_conversion(type, ((each.name, each.number) for each in stored.enum.members))
    if not isinstance(stored, Base):
        return None
    match type:
        case neutral.PrimitiveType():
            return AS_IT_IS if stored in _PRIMITIVES.get(type.primitive, ()) else None
        case neutral.DecimalType() if stored is Base.STRING:
            return decimal_text(type)
        case neutral.DateType() if stored in INTEGERS:
            return AS_IT_IS if type.python is int else DAYS
        case neutral.TimeType() if stored in INTEGERS:
            return AS_IT_IS if type.python is int else units_of_day(type.unit)
        case neutral.TimestampType() if stored is Base.I64:
            return AS_IT_IS if type.python is int else units_since_1970(type.unit, type.local)
        case neutral.DurationType() if stored is Base.I64 and type.python is timedelta:
            return MICROSECONDS
        case neutral.UuidType():
            return _uuid(type, stored)
        case neutral.FixedType() if stored is Base.BINARY:
            return sized(type.size)
    return None


def _uuid(type: neutral.UuidType, stored: Base) -> Conversion | None:
    match stored:
        case Base.UUID:
            return Conversion(str, UUID) if type.python is str else AS_IT_IS
        case Base.STRING:
            return uuid_text(type.python)
        case Base.BINARY:
            return uuid_bytes(type.python)
    return None
