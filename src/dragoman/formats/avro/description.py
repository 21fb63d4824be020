"""From an Avro schema to the description that record classes are made of."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.formats.avro.canonical import normalised
from dragoman.formats.avro.default_values import avro_default
from dragoman.formats.avro.schema import AvroSchema
from dragoman.schema.making import attribute_name
from dragoman.schema.markers import Constraint, Length, Max, Min, Pattern, Primitive, Unit
from dragoman.schema.records import named
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    Construction,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    Field,
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
)

_PRIMITIVES = {each.value for each in Primitive}


def describe_schema(schema: AvroSchema) -> RecordType:
    """What it refers to is described with it. Raises ``InvalidSchema`` for no record."""
    described = _Reader().type(json.loads(normalised(schema.root)), "")
    if isinstance(described, RecordType):
        return described
    raise InvalidSchema(
        "The schema is not a record.", code="schema.not-a-record", next="Only records have a class."
    )


class _Reader:
    """Named types are read once; afterwards their name stands for them."""

    def __init__(self) -> None:
        self.named: dict[str, Type] = {}

    def type(self, schema: Any, namespace: str) -> Type:
        if isinstance(schema, str):
            return self._known(schema, namespace)
        if isinstance(schema, list):
            return UnionType(tuple(self.type(branch, namespace) for branch in schema))
        kind = schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema, namespace)
            case "enum":
                return self._enum(schema, namespace)
            case "fixed":
                return self._fixed(schema, namespace)
            case "array":
                return ArrayType(self.type(schema["items"], namespace), constraints=_constraints(schema))
            case "map":
                return MapType(self.type(schema["values"], namespace), _constraints(schema))
            case str() if kind in _PRIMITIVES:
                return _logical(schema) or PrimitiveType(Primitive(kind), _constraints(schema))
        return self.type(kind, namespace)

    def _known(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            return PrimitiveType(Primitive(name))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is None:
            raise InvalidSchema(f"The type {full!r} is not defined.", code="schema.not-a-record")
        return found

    def _names(self, schema: dict[str, Any], namespace: str) -> Names:
        name = str(schema["name"])
        if "." in name:
            space, _, name = name.rpartition(".")
        else:
            space = schema.get("namespace", namespace)
        return Names(name, space, schema.get("doc"), tuple(schema.get("aliases", ())))

    def _record(self, schema: dict[str, Any], namespace: str) -> RecordType:
        names = self._names(schema, namespace)
        record = RecordType(names, object, Construction.KEYWORD)
        self.named[names.full] = record
        record.fields = tuple(self._field(field, names.namespace) for field in schema["fields"])
        return record

    def _field(self, field: dict[str, Any], namespace: str) -> Field:
        type = self.type(field["type"], namespace)
        default = avro_default(type, field["default"]) if "default" in field else MISSING
        attribute = attribute_name(field["name"])
        return Field(
            field["name"],
            attribute,
            attribute,
            type,
            default,
            field.get("doc"),
            tuple(field.get("aliases", ())),
            field.get("order", "ascending"),
        )

    def _enum(self, schema: dict[str, Any], namespace: str) -> EnumType:
        names = self._names(schema, namespace)
        build: Any = Enum
        made = build(names.name, [(symbol, symbol) for symbol in schema["symbols"]])
        cls = named(name=names.name, namespace=names.namespace, doc=names.doc, aliases=names.aliases)(made)
        described = EnumType(names, cls, schema.get("default"))
        self.named[names.full] = described
        return described

    def _fixed(self, schema: dict[str, Any], namespace: str) -> Type:
        names = self._names(schema, namespace)
        described: Type
        match schema.get("logicalType"):
            case "decimal":
                described = DecimalType(
                    schema["precision"], schema.get("scale", 0), schema["size"], names, _constraints(schema)
                )
            case "duration" if schema["size"] == 12:
                described = DurationType(names)
            case "uuid" if schema["size"] == 16:
                described = UuidType(names=names)
            case _:
                described = FixedType(names, schema["size"])
        self.named[names.full] = described
        return described


def _logical(schema: dict[str, Any]) -> Type | None:
    kind, logical = schema["type"], schema.get("logicalType", "")
    constraints = _constraints(schema)
    head, _, unit = logical.rpartition("-")
    match kind, head or logical:
        case "bytes", "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0), constraints=constraints)
        case "int", "date":
            return DateType(constraints=constraints)
        case (("int" | "long"), "time"):
            return TimeType(Unit(unit), constraints=constraints)
        case "long", ("timestamp" | "local-timestamp"):
            return TimestampType(Unit(unit), head == "local-timestamp", constraints=constraints)
        case "string", "uuid":
            return UuidType()
    return None


def _constraints(schema: dict[str, Any]) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    for name, exclusive in (("minimum", False), ("exclusiveMinimum", True)):
        if name in schema:
            found.append(Min(schema[name], exclusive))
    for name, exclusive in (("maximum", False), ("exclusiveMaximum", True)):
        if name in schema:
            found.append(Max(schema[name], exclusive))
    for counted in ("Length", "Items", "Properties"):
        least, most = schema.get(f"min{counted}"), schema.get(f"max{counted}")
        if least is not None or most is not None:
            found.append(Length(least or 0, most))
    if "pattern" in schema:
        found.append(Pattern(schema["pattern"]))
    return tuple(found)
