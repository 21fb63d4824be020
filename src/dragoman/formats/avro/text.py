"""The Avro schema text of a described class."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from dragoman.core.errors import InvalidSchema
from dragoman.formats.avro import runtime
from dragoman.formats.avro.constraints import written
from dragoman.formats.avro.jsontext import dumps
from dragoman.schema import types
from dragoman.schema.types import MISSING, Field, Names, Type


def text_of(type: Type) -> str:
    return dumps(_Writer().type(type, ""))


class _Writer:
    """Writes each named type where it is first used, and its name afterwards.

    A type without a namespace of its own takes that of the record around it, as Avro reads it anyway.
    """

    def __init__(self) -> None:
        self.seen: dict[str, object] = {}

    def type(self, type: Type, namespace: str) -> Any:
        match type:
            case types.PrimitiveType():
                return _constrained(type.primitive.value, type.constraints)
            case types.DateType():
                return _logical("int", "date", type.constraints)
            case types.TimeType():
                kind = "int" if type.unit.value == "millis" else "long"
                return _logical(kind, f"time-{type.unit}", type.constraints)
            case types.TimestampType():
                name = f"{'local-' if type.local else ''}timestamp-{type.unit}"
                return _logical("long", name, type.constraints)
            case types.DecimalType():
                return self._decimal(type, namespace)
            case types.UuidType():
                if type.names is None:
                    return _logical("string", "uuid", ())
                return self._fixed(type.names, 16, namespace, {"logicalType": "uuid"})
            case types.DurationType():
                return self._fixed(type.names, 12, namespace, {"logicalType": "duration"})
            case types.FixedType():
                return self._fixed(type.names, type.size, namespace, {})
            case types.ArrayType():
                content = {"type": "array", "items": self.type(type.items, namespace)}
                return content | written(type.constraints, "array")
            case types.MapType():
                content = {"type": "map", "values": self.type(type.values, namespace)}
                return content | written(type.constraints, "map")
            case types.UnionType():
                return [self.type(branch, namespace) for branch in type.branches]
            case types.EnumType():
                return self._enum(type, namespace)
            case types.RecordType():
                return self._record(type, namespace)

    def _decimal(self, type: types.DecimalType, namespace: str) -> Any:
        digits = {"logicalType": "decimal", "precision": type.precision, "scale": type.scale}
        if type.names is None or type.size is None:
            return {"type": "bytes"} | digits | written(type.constraints, "bytes")
        return self._fixed(type.names, type.size, namespace, digits | written(type.constraints, "fixed"))

    def _enum(self, type: types.EnumType, namespace: str) -> Any:
        content: dict[str, Any] = {"symbols": list(type.symbols)}
        if type.fallback is not None:
            content["default"] = type.fallback
        return self._named("enum", type.names, namespace, (type.cls, type.fallback), lambda: content)

    def _fixed(self, names: Names, size: int, namespace: str, content: dict[str, Any]) -> Any:
        same = (size, tuple(sorted(content.items(), key=str)))
        return self._named("fixed", names, namespace, same, lambda: {"size": size} | content)

    def _record(self, type: types.RecordType, namespace: str) -> Any:
        inside = type.names.namespace or namespace

        def content() -> dict[str, Any]:
            return {"fields": [self._field(field, inside, type) for field in type.fields]}

        return self._named("record", type.names, namespace, type.cls, content)

    def _named(self, kind: str, names: Names, namespace: str, same: object, content: Any) -> Any:
        own = names.namespace or namespace
        full = f"{own}.{names.name}" if own else names.name
        if full in self.seen:
            if self.seen[full] != same:
                raise InvalidSchema(
                    f"Two different types are called {full}.",
                    code="schema.invalid.duplicate-name",
                    next="Give one of them another name or namespace, and all uses of an enum one fallback.",
                )
            return full
        self.seen[full] = same
        head: dict[str, Any] = {"type": kind, "name": names.name}
        if own != namespace:
            head["namespace"] = own
        if names.doc is not None:
            head["doc"] = names.doc
        if names.aliases:
            head["aliases"] = list(names.aliases)
        return head | content()

    def _field(self, field: Field, namespace: str, owner: types.RecordType) -> dict[str, Any]:
        content: dict[str, Any] = {"name": field.name, "type": self.type(field.type, namespace)}
        if field.default is not MISSING:
            try:
                content["default"] = default_of(field.type, field.default)
            except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
                raise InvalidSchema(
                    f"The default of {owner.cls.__qualname__}.{field.attribute} does not fit: {error}",
                    code="schema.invalid.default",
                    field=field.name,
                ) from error
        if field.doc is not None:
            content["doc"] = field.doc
        if field.aliases:
            content["aliases"] = list(field.aliases)
        if field.order != "ascending":
            content["order"] = field.order
        return content


def default_of(type: Type, value: Any) -> Any:
    """A Python default as the JSON that stands for it in a schema."""
    match type:
        case types.UnionType():
            return default_of(type.branches[0], value)
        case types.ArrayType():
            return [default_of(type.items, item) for item in value]
        case types.MapType():
            return {key: default_of(type.values, item) for key, item in value.items()}
        case types.RecordType():
            return {
                field.name: default_of(field.type, getattr(value, field.attribute)) for field in type.fields
            }
        case types.EnumType():
            return value.name if isinstance(value, Enum) else type.cls(value).name
        case types.DecimalType() if isinstance(value, Decimal):
            data = (
                runtime.decimal_bytes(value, type.precision, type.scale)
                if type.size is None
                else runtime.decimal_fixed(value, type.precision, type.scale, type.size)
            )
            return data.decode("latin-1")
        case types.UuidType() if isinstance(value, UUID):
            return str(value) if type.names is None else value.bytes.decode("latin-1")
        case types.DurationType():
            return runtime.duration_bytes(value).decode("latin-1")
        case types.DateType() if isinstance(value, dt.date):
            return runtime.day(value)
        case types.TimeType() if isinstance(value, dt.time):
            return runtime.micros_of_day(value) * type.unit.per_second // 1_000_000
        case types.TimestampType() if isinstance(value, dt.datetime):
            epoch = runtime.LOCAL_EPOCH if type.local else runtime.EPOCH
            return runtime.micros_since(value, epoch) * type.unit.per_second // 1_000_000
        case _:
            return value.decode("latin-1") if isinstance(value, bytes) else value


def _logical(kind: str, name: str, constraints: tuple[Any, ...]) -> dict[str, Any]:
    return {"type": kind, "logicalType": name} | written(constraints, kind)


def _constrained(kind: str, constraints: tuple[Any, ...]) -> Any:
    return {"type": kind} | written(constraints, kind) if constraints else kind
