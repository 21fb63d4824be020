"""From an Avro schema to the description that record classes are made of."""

from __future__ import annotations

import enum
from typing import Any

from dragoman.core.errors import IncompatibleSchema, InvalidSchema
from dragoman.formats.avro.constraints import stated
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Union,
    simple,
)
from dragoman.formats.avro.schema import AvroSchema
from dragoman.formats.avro.values import branch_of_default, value_of_default
from dragoman.schema import markers, types
from dragoman.schema.making import attribute_name
from dragoman.schema.markers import Max, Min
from dragoman.schema.records import named
from dragoman.schema.types import Names, Type


def describe_schema(schema: AvroSchema) -> types.RecordType:
    """What it refers to is described with it. Raises ``InvalidSchema`` for no record."""
    try:
        described = _Describer().type(schema.root)
    except RecursionError:
        raise InvalidSchema(
            "The types are nested too deep for a class.", code="schema.indescribable"
        ) from None
    if isinstance(described, types.RecordType):
        return described
    raise InvalidSchema(
        "The schema is not a record.", code="schema.not-a-record", next="Only records have a class."
    )


class _Describer:
    """Named types are described once, so that recursive ones find themselves."""

    def __init__(self) -> None:
        self.named: dict[str, Type] = {}

    def type(self, node: Node) -> Type:
        match node:
            case Union():
                return types.UnionType(tuple(self.type(branch) for branch in node.branches))
            case Array():
                return types.ArrayType(self.type(node.items), constraints=stated(node))
            case Map():
                return types.MapType(self.type(node.values), stated(node))
            case Primitive():
                return _primitive(node)
        if node.name in self.named:
            return self.named[node.name]
        match node:
            case Record():
                return self._record(node)
            case Enum():
                described: Type = _enum(node)
            case Fixed():
                described = _fixed(node)
        self.named[node.name] = described
        return described

    def _record(self, node: Record) -> types.RecordType:
        record = types.RecordType(_names(node), object, types.Construction.KEYWORD)
        self.named[node.name] = record
        record.fields = tuple(self._field(field) for field in node.fields)
        return record

    def _field(self, field: Field) -> types.Field:
        attribute = attribute_name(field.name)
        return types.Field(
            field.name,
            attribute,
            attribute,
            self.type(field.type),
            self._default(field.type, field.default) if field.default is not MISSING else MISSING,
            field.properties.get("doc"),
            field.aliases,
            field.properties.get("order", "ascending"),
        )

    def _default(self, node: Node, json: Any) -> Any:
        """The value, or ``MISSING`` where a class cannot have such a default: a whole record."""
        match node:
            case Union():
                return self._default(branch_of_default(node, json), json)
            case Record():
                return MISSING
            case Array():
                items = [self._default(node.items, item) for item in json]
                return MISSING if MISSING in items else items
            case Map():
                entries = {key: self._default(node.values, item) for key, item in json.items()}
                return MISSING if MISSING in entries.values() else entries
        try:
            return value_of_default(node, json, self.type(node))
        except IncompatibleSchema:
            return MISSING


def _names(node: Named) -> Names:
    return Names(
        simple(node.name), node.name.rpartition(".")[0], node.properties.get("doc"), tuple(node.aliases)
    )


def _enum(node: Enum) -> types.EnumType:
    names = _names(node)
    build: Any = enum.Enum
    try:
        made = build(names.name, [(symbol, symbol) for symbol in node.symbols])
    except (TypeError, ValueError) as error:
        raise InvalidSchema(
            f"The enum {node.name} cannot be a class: {error}.",
            code="schema.indescribable",
            pointer=str(node.place / "symbols"),
        ) from error
    cls = named(name=names.name, namespace=names.namespace, doc=names.doc, aliases=names.aliases)(made)
    return types.EnumType(names, cls, node.default)


def _fixed(node: Fixed) -> Type:
    names, logical = _names(node), node.logical
    if logical is None:
        return types.FixedType(names, node.size)
    match logical.name:
        case "decimal":
            return types.DecimalType(logical.precision, logical.scale, node.size, names, stated(node))
        case "duration":
            return types.DurationType(names)
    return types.UuidType(names=names)


def _primitive(node: Primitive) -> Type:
    logical = node.logical
    if logical is None:
        return types.PrimitiveType(markers.Primitive(node.kind), stated(node))
    # A bound of a date or time may also be its bare number, which the class' values do not compare with.
    limits = tuple(
        each
        for each in stated(node)
        if isinstance(each, Min | Max) and not isinstance(each.value, int | float)
    )
    head, _, unit = logical.name.rpartition("-")
    match head or logical.name:
        case "decimal":
            return types.DecimalType(logical.precision, logical.scale, constraints=limits)
        case "date":
            return types.DateType(constraints=limits)
        case "time":
            return types.TimeType(markers.Unit(unit), constraints=limits)
        case "uuid":
            return types.UuidType()
    return types.TimestampType(markers.Unit(unit), head.startswith("local"), constraints=limits)
