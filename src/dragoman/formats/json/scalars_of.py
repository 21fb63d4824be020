"""Which type of a description a scalar's schema means: the reverse of what ``schema_of`` writes."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from dragoman.formats.json.schema_of import EXTENSION, INT, LONG
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
    extension = schema.get(EXTENSION, {})
    logical = _extended(schema, extension, names)
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
            primitive = Primitive.FLOAT if extension.get("type") == "float" else Primitive.DOUBLE
            return PrimitiveType(primitive, _limits(schema, {}))
        case _:
            return _string(schema, extension)


def _is_narrow(schema: dict[str, Any]) -> bool:
    """Whether the limits are those of 32 bits, one of them perhaps narrower."""
    least, most = schema.get("minimum", LONG["minimum"]), schema.get("maximum", LONG["maximum"])
    within = least >= INT["minimum"] and most <= INT["maximum"]
    return bool(within and (least == INT["minimum"] or most == INT["maximum"]))


def _string(schema: dict[str, Any], extension: dict[str, Any]) -> Type:
    match schema.get("format"):
        case "date-time":
            return TimestampType(Unit.MICROS, False, datetime)
        case "date":
            return DateType(date)
        case "uuid":
            return UuidType(UUID)
    if schema.get("contentEncoding") == "base64":
        known = "minBytes" in extension
        lengths = (Length(extension["minBytes"], extension.get("maxBytes")),) if known else ()
        return PrimitiveType(Primitive.BYTES, lengths)
    constraints: list[Constraint] = []
    if "minLength" in schema or "maxLength" in schema:
        constraints.append(Length(schema.get("minLength", 0), schema.get("maxLength")))
    if "pattern" in schema:
        constraints.append(Pattern(schema["pattern"]))
    return PrimitiveType(Primitive.STRING, tuple(constraints))


def _extended(schema: dict[str, Any], extension: dict[str, Any], names: Names) -> Type | None:
    """What the extension says more precisely than the schema."""
    number = schema["type"] == "integer"
    own = _named(extension.get("name"))
    match extension.get("type"):
        case "decimal":
            limits = _stated(extension, Decimal)
            precision, scale = extension["precision"], extension.get("scale", 0)
            return DecimalType(precision, scale, extension.get("size"), own, limits)
        case "date":
            return DateType(
                int if number else date, _stated(extension, int if number else date.fromisoformat)
            )
        case "time":
            python: Any = int if number else time
            limits = _stated(extension, int if number else time.fromisoformat)
            return TimeType(Unit(extension["unit"]), python, limits)
        case "timestamp":
            python = int if number else datetime
            limits = _stated(extension, int if number else datetime.fromisoformat)
            return TimestampType(Unit(extension["unit"]), bool(extension.get("local")), python, limits)
        case "duration":
            python = timedelta if extension.get("elapsed") else Duration
            return DurationType(own or names, python)
        case "fixed":
            return FixedType(own or names, extension["size"])
        case "uuid":
            return UuidType(str if extension.get("text") else UUID, own)
        case _:
            return None


def _named(full: str | None) -> Names | None:
    if not full:
        return None
    namespace, _, name = full.rpartition(".")
    return Names(name, namespace)


def _stated(extension: dict[str, Any], read: Any) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    for word, make, exclusive in (
        ("min", Min, False),
        ("exclusiveMin", Min, True),
        ("max", Max, False),
        ("exclusiveMax", Max, True),
    ):
        if word in extension:
            found.append(make(read(extension[word]), exclusive))
    return tuple(found)


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
