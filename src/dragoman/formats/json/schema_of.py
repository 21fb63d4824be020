"""The JSON Schema of a record class.

Of draft 7, which all of Confluent's clients read. Records are closed (``additionalProperties`` is false),
so that fields can be added later: with an open record a writer might have sent anything under the new
name. What JSON Schema has no word for stands under ``x-dragoman``, which validators ignore.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.document import compact, pointer
from dragoman.formats.json.draft import DEFAULT
from dragoman.formats.json.extension import EXTENSION
from dragoman.formats.json.records import text
from dragoman.formats.json.records.encoding import value_of
from dragoman.formats.json.records.misfit import Misfit
from dragoman.formats.json.records.unions import refuse_ambiguous
from dragoman.schema.markers import Constraint, Duration, Length, Max, Min, Pattern, Primitive
from dragoman.schema.types import (
    MISSING,
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

INT: dict[str, Any] = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
LONG: dict[str, Any] = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


def schema_text(record: RecordType) -> str:
    """The schema text of a described record. Raises ``InvalidSchema`` for one that JSON cannot hold."""
    return compact(_Writer(record).document())


class _Writer:
    """Named types are written once, under ``definitions``; the root stands for itself."""

    def __init__(self, root: RecordType) -> None:
        self._root = root
        self._definitions: dict[str, Any] = {}
        self._named: dict[str, type] = {root.names.full: root.cls}

    def document(self) -> dict[str, Any]:
        body = self._record(self._root)
        document = {"$schema": DEFAULT.uri, **body}
        if self._definitions:
            document["definitions"] = dict(sorted(self._definitions.items()))
        return document

    def _record(self, record: RecordType) -> dict[str, Any]:
        schema: dict[str, Any] = {"title": record.names.full}
        if record.names.doc:
            schema["description"] = record.names.doc
        schema["type"] = "object"
        schema["properties"] = {each.name: self._field(each) for each in record.fields}
        required = [each.name for each in record.fields if each.default is MISSING]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        return schema | _aliases(record.names.aliases)

    def _field(self, field: Field) -> dict[str, Any]:
        schema = self._type(field.type)
        added: dict[str, Any] = {}
        if field.doc:
            added["description"] = field.doc
        if field.default is not MISSING:
            added["default"] = _default(field)
        extension: dict[str, Any] = {"aliases": list(field.aliases)} if field.aliases else {}
        if isinstance(field.type, EnumType) and field.type.fallback:
            extension["fallback"] = field.type.fallback
        if extension:
            added[EXTENSION] = extension
        if added and "$ref" in schema:
            # Draft 7 ignores what stands beside a reference.
            schema = {"allOf": [schema]}
        return _merged(schema, added)

    def _type(self, type: Type) -> dict[str, Any]:
        match type:
            case PrimitiveType():
                return _primitive(type)
            case EnumType():
                return self._named_type(type.names, type.cls, lambda: _enum(type))
            case RecordType():
                if type is self._root:
                    return {"$ref": "#"}
                return self._named_type(type.names, type.cls, lambda: self._record(type))
            case ArrayType():
                unique = {"uniqueItems": True} if type.python in (set, frozenset) else {}
                limits = _limits(type.constraints, "Items")
                return {"type": "array", "items": self._type(type.items), **unique, **limits}
            case MapType():
                limits = _limits(type.constraints, "Properties")
                return {"type": "object", "additionalProperties": self._type(type.values), **limits}
            case UnionType():
                refuse_ambiguous(type)
                return {"anyOf": [self._type(branch) for branch in type.branches]}
            case _:
                return _logical(type)

    def _named_type(self, names: Names, cls: type, write: Any) -> dict[str, Any]:
        key = names.full
        known = self._named.setdefault(key, cls)
        if known is not cls:
            raise InvalidSchema(
                f"{known.__qualname__} and {cls.__qualname__} are both called {key!r}.",
                next="Give one of them another name or namespace.",
            )
        if key not in self._definitions:
            self._definitions[key] = {}
            self._definitions[key].update(write())
        return {"$ref": "#/definitions" + pointer((key,))}


def _default(field: Field) -> Any:
    try:
        return value_of(field.type, field.default)
    except Misfit as error:
        raise InvalidSchema(f"The default of {field.name!r} does not fit it: {error}") from None


def _enum(type: EnumType) -> dict[str, Any]:
    schema: dict[str, Any] = {"title": type.names.full}
    if type.names.doc:
        schema["description"] = type.names.doc
    schema |= {"type": "string", "enum": list(type.symbols)}
    return schema | _aliases(type.names.aliases)


def _primitive(type: PrimitiveType) -> dict[str, Any]:
    match type.primitive:
        case Primitive.NULL:
            return {"type": "null"}
        case Primitive.BOOLEAN:
            return {"type": "boolean"}
        case Primitive.INT | Primitive.LONG:
            bits = INT if type.primitive is Primitive.INT else LONG
            return {**bits, **_narrowed(_limits(type.constraints), bits)}
        case Primitive.FLOAT:
            return {"type": "number", **_limits(type.constraints), EXTENSION: {"type": "float"}}
        case Primitive.DOUBLE:
            return {"type": "number", **_limits(type.constraints)}
        case Primitive.BYTES:
            return {"type": "string", "contentEncoding": "base64", **_encoded(type.constraints)}
        case Primitive.STRING:
            return {"type": "string", **_limits(type.constraints, "Length")}


def _logical(
    type: DecimalType | DateType | TimeType | TimestampType | UuidType | DurationType | FixedType,
) -> dict[str, Any]:
    extension: dict[str, Any]
    match type:
        case DecimalType():
            whole = type.precision - type.scale
            fraction = f"(\\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
            schema: dict[str, Any] = {
                "type": "string",
                "pattern": f"^-?[0-9]{{1,{max(whole, 1)}}}{fraction}$",
            }
            extension = {"type": "decimal", "precision": type.precision, "scale": type.scale}
            extension |= _sized(type.size, type.names)
        case DateType():
            schema = {"type": "string", "format": "date"}
            extension = {"type": "date"} if type.python is int or type.constraints else {}
        case TimeType():
            schema = {"type": "string", "pattern": text.LOCAL_TIME}
            extension = {"type": "time", "unit": type.unit.value}
        case TimestampType():
            schema = {"type": "string", "pattern": text.LOCAL_TIMESTAMP}
            if not type.local:
                schema = {"type": "string", "format": "date-time"}
            extension = {"type": "timestamp", "unit": type.unit.value, "local": type.local}
        case UuidType():
            schema = {"type": "string", "format": "uuid"}
            extension = {"type": "uuid", "text": True} if type.python is str else {}
            if type.names is not None:
                extension |= {"type": "uuid", "name": type.names.full}
        case DurationType():
            schema = {"type": "string", "format": "duration", "pattern": text.DURATION}
            extension = {"type": "duration", "name": type.names.full}
            if type.python is not Duration:
                extension["elapsed"] = True
        case FixedType():
            length = -(-type.size // 3) * 4
            schema = {"type": "string", "contentEncoding": "base64", "minLength": length, "maxLength": length}
            extension = {"type": "fixed", **_sized(type.size, type.names)}
    if getattr(type, "python", None) is int:
        schema = {"type": "integer"}
    extension |= _stated(getattr(type, "constraints", ()))
    return {**schema, EXTENSION: extension} if extension else schema


def _sized(size: int | None, names: Names | None) -> dict[str, Any]:
    return {"size": size, "name": names.full} if names is not None and size is not None else {}


def _stated(constraints: tuple[Constraint, ...]) -> dict[str, Any]:
    """Limits of values that travel as text: stated for people and generators, checked by the codec."""
    stated: dict[str, Any] = {}
    for each in constraints:
        if isinstance(each, Min | Max):
            word = "min" if isinstance(each, Min) else "max"
            stated["exclusive" + word.title() if each.exclusive else word] = str(each.value)
    return dict(sorted(stated.items()))


def _encoded(constraints: tuple[Constraint, ...]) -> dict[str, Any]:
    """Lengths of bytes as lengths of their base64."""
    limits: dict[str, Any] = {}
    for each in constraints:
        if isinstance(each, Length):
            limits["minLength"] = -(-each.min // 3) * 4
            if each.max is not None:
                limits["maxLength"] = -(-each.max // 3) * 4
            limits[EXTENSION] = {"minBytes": each.min} | ({} if each.max is None else {"maxBytes": each.max})
    return limits


def _limits(constraints: tuple[Constraint, ...], noun: str = "") -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for each in constraints:
        match each:
            case Min(value, exclusive):
                limits["exclusiveMinimum" if exclusive else "minimum"] = _number(value)
            case Max(value, exclusive):
                limits["exclusiveMaximum" if exclusive else "maximum"] = _number(value)
            case Length(least, most):
                if least:
                    limits["min" + noun] = least
                if most is not None:
                    limits["max" + noun] = most
            case Pattern(regex):
                limits["pattern"] = regex
    return dict(sorted(limits.items(), reverse=True))


def _narrowed(limits: dict[str, Any], bits: dict[str, Any]) -> dict[str, Any]:
    """The width's own limits hold where the class' are wider."""
    narrowed = dict(limits)
    if "minimum" in limits:
        narrowed["minimum"] = max(limits["minimum"], bits["minimum"])
    if "maximum" in limits:
        narrowed["maximum"] = min(limits["maximum"], bits["maximum"])
    return narrowed


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _aliases(aliases: tuple[str, ...]) -> dict[str, Any]:
    return {EXTENSION: {"aliases": list(aliases)}} if aliases else {}


def _merged(schema: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    extension = {**schema.get(EXTENSION, {}), **added.get(EXTENSION, {})}
    return {**schema, **added, **({EXTENSION: extension} if extension else {})}
