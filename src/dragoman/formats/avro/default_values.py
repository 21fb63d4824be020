"""Defaults of Avro fields as the Python values that records use."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from dragoman.schema.markers import Duration, Primitive
from dragoman.schema.types import (
    MISSING,
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


def avro_default(type: Type, value: Any) -> Any:
    """The value, or ``MISSING`` where a class cannot have such a default: a whole record."""
    match type:
        case UnionType():
            return avro_default(type.branches[0], value)
        case RecordType():
            return MISSING
        case ArrayType():
            items = [avro_default(type.items, item) for item in value]
            return MISSING if MISSING in items else items
        case MapType():
            entries = {key: avro_default(type.values, item) for key, item in value.items()}
            return MISSING if MISSING in entries.values() else entries
        case EnumType():
            return type.cls[value]
        case PrimitiveType():
            return _primitive(type.primitive, value)
    return _logical(type, value)


def _primitive(primitive: Primitive, value: Any) -> Any:
    match primitive:
        case Primitive.BYTES:
            return value.encode("latin-1")
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float(value)
    return value


def _logical(type: Type, value: Any) -> Any:
    match type:
        case DateType():
            return date(1970, 1, 1) + timedelta(days=value)
        case TimeType():
            moment = datetime(1970, 1, 1) + timedelta(microseconds=value * 1_000_000 // type.unit.per_second)
            return time(moment.hour, moment.minute, moment.second, moment.microsecond)
        case TimestampType():
            start = datetime(1970, 1, 1, tzinfo=None if type.local else UTC)
            return start + timedelta(microseconds=value * 1_000_000 // type.unit.per_second)
        case UuidType():
            return UUID(value) if type.names is None else UUID(bytes=value.encode("latin-1"))
        case DecimalType():
            unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
            return Decimal(unscaled).scaleb(-type.scale)
        case DurationType():
            data = value.encode("latin-1")
            return Duration(*(int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8)))
        case FixedType():
            return value.encode("latin-1")
    return value
