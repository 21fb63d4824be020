"""Data types as JSON Schema (draft 7, the one that AsyncAPI builds on)."""

from __future__ import annotations

import json
from typing import Any

from dragoman.language import syntax as s
from dragoman.language.model import Model
from dragoman.language.shape import Field, Many, Named, Record, Scalar, Shape, Tuple, Union, shape_of
from dragoman.language.words import SHORT_ROLES

_TYPES: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int32"},
    "long": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "float"},
    "double": {"type": "number", "format": "double"},
    "string": {"type": "string"},
    "raw": {"type": "string", "contentEncoding": "base64"},
    "void": {"type": "null"},
}
_ROLES = {"ID": "identifier", "L": "link", "MD": "metadata"}


def schema_of(shape: Shape, references: str = "#/components/schemas/") -> dict[str, Any]:
    """The schema of a shape. Data types are referred to by name below ``references``."""
    match shape:
        case Scalar(basic, role):
            schema = dict(_TYPES.get(basic or "", {}))
            short = SHORT_ROLES.get(role, role)
            return schema | ({"x-eip-role": _ROLES[short]} if short in _ROLES else {})
        case Named(name):
            return {"$ref": references + name}
        case Many(item, minimum):
            schema = {"type": "array", "items": schema_of(item, references)}
            return schema | ({"minItems": minimum} if minimum else {})
        case Tuple(items):
            schemas = [schema_of(item, references) for item in items]
            count = len(schemas)
            return {"type": "array", "items": schemas, "minItems": count, "maxItems": count}
        case Union(options):
            return {"oneOf": [schema_of(option, references) for option in options]}
        case Record():
            return _object(shape, references)
    return {}


def _object(record: Record, references: str) -> dict[str, Any]:
    required = [field.name for field in record.fields if not field.optional]
    schema: dict[str, Any] = {"type": "object"}
    if required:
        schema["required"] = required
    schema["properties"] = {field.name: _property(field, references) for field in record.fields}
    groups = [{"oneOf": [{"required": [name]} for name in group]} for group in record.exclusive]
    if len(groups) == 1:
        schema |= groups[0]
    elif groups:
        schema["allOf"] = groups
    return schema


def _property(field: Field, references: str) -> dict[str, Any]:
    schema = schema_of(field.shape, references)
    if field.stereotype is None:
        return schema
    stereotype = {"x-eip-stereotype": field.stereotype}
    # Nothing may stand beside a reference, so it is wrapped.
    return {"allOf": [schema], **stereotype} if "$ref" in schema else schema | stereotype


def type_schema(type: s.DataType, references: str = "#/components/schemas/") -> dict[str, Any]:
    """The schema of one data type, with its version and default."""
    schema = schema_of(shape_of(type.structure), references)
    if "$ref" in schema:
        schema = {"allOf": [schema]}
    if type.version:
        schema["x-eip-version"] = type.version.value
    if type.default:
        schema["default"] = _default(type.default.value, schema)
    return schema


def _default(text: str, schema: dict[str, Any]) -> Any:
    """Numbers, truth values and structures are written as JSON; for a string the text itself counts."""
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def json_schema(model: Model, name: str) -> str:
    """A document of its own for one data type; the types it needs are in its definitions."""
    needed = [each for each in reachable(model, name) if each != name]
    document: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
    document |= type_schema(model.types[name], "#/definitions/")
    definitions = {each: type_schema(model.types[each], "#/definitions/") for each in needed}
    if name in _named_in(model, [*needed, name]):
        definitions[name] = {"$ref": "#"}
    if definitions:
        document["definitions"] = definitions
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _named_in(model: Model, names: list[str]) -> set[str]:
    return {other for name in names for other in _references(model.types[name].structure)}


def _references(structure: s.Structure) -> list[str]:
    return [node.type.text for node in s.walk(structure) if isinstance(node, s.Reference)]


def reachable(model: Model, name: str) -> list[str]:
    """A data type and all it needs, each after what it needs where there is no cycle."""
    order: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [(name, False)]
    while waiting:
        current, done = waiting.pop()
        if done:
            order[current] = None
        elif current not in seen and current in model.types:
            seen.add(current)
            waiting.append((current, True))
            waiting += [(other, False) for other in reversed(_references(model.types[current].structure))]
    return list(order)
