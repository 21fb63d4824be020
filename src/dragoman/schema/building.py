"""Record classes from a description: the way back from ``dragoman.schema.records.describe``."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Annotated, Any
from uuid import UUID

from dragoman.schema import markers
from dragoman.schema.making import Attribute, annotate, make_record
from dragoman.schema.markers import Aliases, Doc, Duration, Fallback, Name, Order, Primitive
from dragoman.schema.records import named
from dragoman.schema.types import (
    ArrayType,
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

_PRIMITIVES: dict[Primitive, Any] = {
    Primitive.NULL: None,
    Primitive.BOOLEAN: bool,
    Primitive.INT: markers.Int,
    Primitive.LONG: int,
    Primitive.FLOAT: markers.Float,
    Primitive.DOUBLE: float,
    Primitive.BYTES: bytes,
    Primitive.STRING: str,
}


def class_of(record: RecordType) -> type:
    return _Maker().record(record)


class _Maker:
    """Classes are annotated when all are made, since records may contain themselves."""

    def __init__(self) -> None:
        self.made: dict[RecordType, type] = {}

    def record(self, record: RecordType) -> type:
        if record in self.made:
            return self.made[record]
        names = record.names
        attributes = [Attribute(field.attribute, field.default) for field in record.fields]
        cls = make_record(names.name, names.namespace, attributes)
        named(name=names.name, namespace=names.namespace, doc=names.doc, aliases=names.aliases)(cls)
        self.made[record] = cls
        annotate(cls, {field.attribute: self.field(field) for field in record.fields})
        return cls

    def field(self, field: Field) -> Any:
        marks: list[Any] = []
        if field.attribute != field.name:
            marks.append(Name(field.name))
        if field.doc:
            marks.append(Doc(field.doc))
        if field.aliases:
            marks.append(Aliases(*field.aliases))
        if field.order != "ascending":
            marks.append(Order(field.order))
        return _marked(self.annotation(field.type), marks)

    def annotation(self, type: Type) -> Any:
        match type:
            case PrimitiveType():
                return _marked(_PRIMITIVES[type.primitive], type.constraints)
            case RecordType():
                return self.record(type)
            case EnumType():
                return _marked(type.cls, [Fallback(type.cls[type.fallback])] if type.fallback else [])
            case ArrayType():
                items: Any = self.annotation(type.items)
                return _marked(type.python[items], type.constraints)
            case MapType():
                values: Any = self.annotation(type.values)
                return _marked(dict[str, values], type.constraints)
            case UnionType():
                return reduce(or_, (self.annotation(branch) for branch in type.branches))
        return _logical(type)


def _logical(type: Type) -> Any:
    match type:
        case DecimalType():
            named_as = (type.size, *_named_as(type.names)) if type.names else ()
            return _marked(
                Decimal, [markers.decimal(type.precision, type.scale, *named_as), *type.constraints]
            )
        case DateType():
            return _marked(date, type.constraints)
        case TimeType():
            return _marked(time, [markers.timeofday(type.unit), *type.constraints])
        case TimestampType():
            return _marked(datetime, [markers.timestamp(type.unit, type.local), *type.constraints])
        case UuidType():
            return _marked(UUID, [markers.uuid(True, *_named_as(type.names))] if type.names else [])
        case DurationType():
            return _marked(Duration, [markers.duration(*_named_as(type.names))])
        case FixedType():
            return _marked(bytes, [markers.fixed(type.size, *_named_as(type.names))])
    raise TypeError(type)


def _named_as(names: Names) -> tuple[str, str]:
    return names.name, names.namespace


def _marked(annotation: Any, marks: Any) -> Any:
    return Annotated[(annotation, *marks)] if marks else annotation
