"""Which type of a description a scalar's schema means: the reverse of what ``schema_of`` writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.extension import EXTENSION, Extension, extension_of
from dragoman.formats.json.schema_of import INT, LONG
from dragoman.schema.markers import Constraint, Duration, Length, Max, Min, Pattern, Primitive, Unit
from dragoman.schema.types import (
    DateType,
    DecimalType,
    DurationType,
    FixedType,
    Names,
    PrimitiveType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)


def kind(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def scalar(schema: dict[str, Any], names: Names) -> Type:
    """``names`` are for the types that need some and have none."""
    extension = extension_of(schema)
    logical = _extended(schema["type"] == "integer", extension, names)
    if logical is not None:
        return logical
    match schema["type"]:
        case "boolean":
            return PrimitiveType(Primitive.BOOLEAN)
        case "integer":
            narrow = _is_narrow(schema)
            primitive = Primitive.INT if narrow else Primitive.LONG
            return PrimitiveType(primitive, _limits(schema, INT if narrow else LONG))
        case "number":
            primitive = Primitive.FLOAT if extension.type == "float" else Primitive.DOUBLE
            return PrimitiveType(primitive, _limits(schema, {}))
        case _:
            return _string(schema, extension)


def _is_narrow(schema: dict[str, Any]) -> bool:
    """Whether the limits are those of 32 bits, one of them perhaps narrower."""
    least, most = schema.get("minimum", LONG["minimum"]), schema.get("maximum", LONG["maximum"])
    within = least >= INT["minimum"] and most <= INT["maximum"]
    return bool(within and (least == INT["minimum"] or most == INT["maximum"]))


def _string(schema: dict[str, Any], extension: Extension) -> Type:
    match schema.get("format"):
        case "date-time":
            return TimestampType(Unit.MICROS, False, datetime)
        case "date":
            return DateType(date)
        case "uuid":
            return UuidType(UUID)
    if schema.get("contentEncoding") == "base64":
        least, most = extension.min_bytes, extension.max_bytes
        return PrimitiveType(Primitive.BYTES, () if least is None else (Length(least, most),))
    constraints: list[Constraint] = []
    if "minLength" in schema or "maxLength" in schema:
        constraints.append(Length(schema.get("minLength", 0), schema.get("maxLength")))
    if "pattern" in schema:
        constraints.append(Pattern(schema["pattern"]))
    return PrimitiveType(Primitive.STRING, tuple(constraints))


def _extended(number: bool, extension: Extension, names: Names) -> Type | None:
    """What the extension says more precisely than the schema. ``number`` is for moments written as such."""
    own = _named(extension.name)
    match extension.type:
        case "decimal":
            return _decimal(extension, own)
        case "date":
            return DateType(
                int if number else date, _stated(extension, int if number else date.fromisoformat)
            )
        case "time":
            limits = _stated(extension, int if number else time.fromisoformat)
            return TimeType(extension.unit, int if number else time, limits)
        case "timestamp":
            limits = _stated(extension, int if number else datetime.fromisoformat)
            return TimestampType(extension.unit, extension.local, int if number else datetime, limits)
        case "duration":
            return DurationType(own or names, timedelta if extension.elapsed else Duration)
        case "fixed" if extension.size is not None and extension.size > 0:
            return FixedType(own or names, extension.size)
        case "uuid":
            return UuidType(str if extension.text else UUID, own)
        case _:
            return None


def _decimal(extension: Extension, names: Names | None) -> DecimalType:
    precision = extension.precision or 0
    if not 0 <= extension.scale <= precision or not precision:
        raise InvalidSchema(
            f"{EXTENSION} states a decimal without a usable precision and scale.",
            next="It needs 0 < precision and 0 <= scale <= precision.",
        )
    return DecimalType(precision, extension.scale, extension.size, names, _stated(extension, Decimal))


def _named(full: str | None) -> Names | None:
    if not full:
        return None
    namespace, _, name = full.rpartition(".")
    return Names(name, namespace)


def _stated(extension: Extension, read: Callable[[str], Any]) -> tuple[Constraint, ...]:
    limits = (
        (extension.min, Min, False),
        (extension.exclusive_min, Min, True),
        (extension.max, Max, False),
        (extension.exclusive_max, Max, True),
    )
    try:
        return tuple(make(read(text), exclusive) for text, make, exclusive in limits if text is not None)
    except (ValueError, ArithmeticError):
        raise InvalidSchema(f"A limit in {EXTENSION} is not of the type that it limits.") from None


def _limits(schema: dict[str, Any], width: dict[str, Any]) -> tuple[Constraint, ...]:
    """Without the limits that the width has anyway."""
    found: list[Constraint] = []
    for keyword, make, exclusive in (
        ("minimum", Min, False),
        ("exclusiveMinimum", Min, True),
        ("maximum", Max, False),
        ("exclusiveMaximum", Max, True),
    ):
        value = schema.get(keyword)
        if isinstance(value, int | float) and not isinstance(value, bool) and value != width.get(keyword):
            found.append(make(value, exclusive))
    return tuple(found)
