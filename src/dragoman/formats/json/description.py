"""From a JSON Schema to the description that all formats share: for code generators, and for other formats.

What our own ``schema_of`` wrote comes back whole. Of other schemas everything comes back that a record
class can say; what none can (anything at all, a condition, ``not``) is refused with its place. A property
that may be left out becomes an optional field.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.document import pointer
from dragoman.formats.json.extension import extension_of
from dragoman.formats.json.link import Linked, Place, place_of
from dragoman.formats.json.parsed import JsonSchema
from dragoman.formats.json.records.decoding import value_from
from dragoman.formats.json.records.misfit import Misfit
from dragoman.formats.json.scalars_of import kind, scalar
from dragoman.schema.markers import Length, Primitive
from dragoman.schema.records import named
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    Construction,
    EnumType,
    Field,
    MapType,
    Names,
    PrimitiveType,
    RecordType,
    Type,
    UnionType,
    is_null,
)

NULL = PrimitiveType(Primitive.NULL)


def describe_schema(schema: JsonSchema, name: str = "Record") -> RecordType:
    """The record that a schema describes. ``name`` is for a schema without a title.

    Raises ``InvalidSchema`` for what no record class can hold.
    """
    described = type_of_schema(schema, name)
    if isinstance(described, RecordType):
        return described
    raise InvalidSchema(
        "The schema does not describe an object with properties.",
        code="schema.not-a-record",
        next="Only such schemas have a record class.",
    )


def type_of_schema(schema: JsonSchema, name: str = "Record") -> Type:
    """The same for a schema of any value."""
    try:
        return _Describer(schema.linked).of(Place(0, ""), name)
    except RecursionError:
        raise InvalidSchema(
            "The schema's types are nested too deep for a description.", code="schema.indescribable"
        ) from None


class _Describer:
    """Named types are made once for a place, so recursive ones find themselves."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._named: dict[Place, Type] = {}
        self._open: set[Place] = set()

    def of(self, place: Place, name: str) -> Type:
        """``name`` is what the schema would be called if it has no title."""
        known = self._named.get(place)
        if known is not None:
            return known
        if place in self._open:
            raise _indescribable("a value that contains itself without a record between", place)
        self._open.add(place)
        try:
            return self._describe(place, self._linked.at(place), name)
        finally:
            self._open.discard(place)

    def _describe(self, place: Place, schema: Any, name: str) -> Type:
        if not isinstance(schema, dict) or not schema:
            raise _indescribable("any value or none", place)
        if "$ref" in schema:
            target = place_of(schema["$ref"])
            return self.of(target, target.pointer.rpartition("/")[2] or name)
        for keyword_ in ("anyOf", "oneOf"):
            if keyword_ in schema:
                count = len(schema[keyword_])
                return _union([self.of(_under(place, keyword_, index), name) for index in range(count)])
        if "allOf" in schema:
            return self._all(place, schema, name)
        if "enum" in schema or "const" in schema:
            return self._enum(place, schema, name)
        return self._typed(place, schema, name)

    def _typed(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            return _union([self._one(place, {**schema, "type": each}, name) for each in kinds])
        return self._one(place, {**schema, "type": kinds}, name)

    def _one(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        match schema["type"]:
            case "object":
                return self._object(place, schema, name)
            case "array":
                return self._array(place, schema, name)
            case "null":
                return NULL
            case "string" | "integer" | "number" | "boolean":
                return scalar(schema, _names(name, {}))
            case _:
                raise _indescribable("values of any type", place)

    def _object(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        if "properties" in schema:
            return self._record(place, schema, name, [(place, schema)])
        if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
            limits = _length(schema, "Properties")
            return MapType(self.of(_under(place, "additionalProperties"), name), limits)
        raise _indescribable("an object of any properties", place)

    def _record(
        self, place: Place, schema: dict[str, Any], name: str, parts: list[tuple[Place, dict[str, Any]]]
    ) -> RecordType:
        """``parts`` are the schemas whose properties it has: itself, or those of its ``allOf``."""
        names = _names(name, schema)
        record = RecordType(names, object, Construction.KEYWORD)
        self._named[place] = record
        required = {each for _, part in parts for each in part.get("required", [])}
        places = {each: where for where, part in parts for each in part["properties"]}
        attributes = attributes_of(places)
        record.fields = tuple(
            self._field(_under(where, "properties", each), each, attributes[each], each in required)
            for each, where in places.items()
        )
        record.cls = dataclasses.make_dataclass(
            names.name, attributes.values(), namespace={"__doc__": names.doc}, kw_only=True
        )
        return record

    def _field(self, place: Place, name: str, attribute: str, required: bool) -> Field:
        schema = self._linked.at(place)
        type = self.of(place, _camel(name))
        stated = schema if isinstance(schema, dict) else {}
        extension = extension_of(stated)
        if isinstance(type, EnumType) and extension.fallback in type.symbols:
            type = dataclasses.replace(type, fallback=extension.fallback)
        default: Any = MISSING
        if "default" in stated:
            default = _default(type, stated["default"], place)
        elif not required:
            type = _union([NULL, type])
            default = None
        return Field(
            name=name,
            attribute=attribute,
            argument=attribute,
            type=type,
            default=default,
            doc=stated.get("description"),
            aliases=extension.aliases,
        )

    def _all(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        """A single part stands for itself; objects are merged into one record."""
        places = [self._target(_under(place, "allOf", index)) for index in range(len(schema["allOf"]))]
        if len(places) == 1 and not {"properties", "type", "enum"} & schema.keys():
            reference = schema["allOf"][0].get("$ref") if isinstance(schema["allOf"][0], dict) else None
            last = place_of(reference).pointer.rpartition("/")[2] if reference else ""
            return self.of(places[0], last or name)
        parts = [(each, self._linked.at(each)) for each in places]
        own = [(place, schema)] if "properties" in schema else []
        if any(not isinstance(part, dict) or "properties" not in part for _, part in parts):
            raise _indescribable("allOf of other things than objects", place)
        return self._record(place, schema, name, [*parts, *own])

    def _target(self, place: Place) -> Place:
        schema = self._linked.at(place)
        return place_of(schema["$ref"]) if isinstance(schema, dict) and "$ref" in schema else place

    def _array(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        items = schema.get("items")
        if not isinstance(items, dict) or not items:
            raise _indescribable("an array of anything", place)
        inner = self.of(_under(place, "items"), name)
        unique = schema.get("uniqueItems") is True and isinstance(inner, PrimitiveType)
        return ArrayType(inner, set if unique else list, _length(schema, "Items"))

    def _enum(self, place: Place, schema: dict[str, Any], name: str) -> Type:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if None in values and len(values) > 1:
            rest = [value for value in values if value is not None]
            return _union([NULL, self._enum(place, {**schema, "enum": rest}, name)])
        if values and all(isinstance(each, str) and _is_symbol(each) for each in values):
            names = _names(name, schema)
            build: Any = Enum
            made = build(names.name, {each: each for each in values})
            named(name=names.name, namespace=names.namespace, doc=names.doc, aliases=names.aliases)(made)
            return self._named.setdefault(place, EnumType(names, made))
        kinds = {kind(each) for each in values}
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1 or not kinds <= {"string", "integer", "number", "boolean", "null"}:
            raise _indescribable("values of several types", place)
        return self._one(place, {"type": kinds.pop()}, name)


def _union(branches: list[Type]) -> Type:
    """Flat, each branch once."""
    flat: list[Type] = []
    for branch in branches:
        for each in branch.branches if isinstance(branch, UnionType) else (branch,):
            if not any(each is other or (is_null(each) and is_null(other)) for other in flat):
                flat.append(each)
    return flat[0] if len(flat) == 1 else UnionType(tuple(flat))


def _default(type: Type, value: Any, place: Place) -> Any:
    try:
        return value_from(type, value)
    except Misfit as error:
        raise InvalidSchema(
            f"The default does not fit: {error}", next="Correct it.", pointer=place.pointer
        ) from None


def _names(name: str, schema: dict[str, Any]) -> Names:
    title = schema.get("title")
    full = title if isinstance(title, str) and title else name
    namespace, _, last = full.rpartition(".")
    if not all(_is_name(part) for part in (*namespace.split("."), last) if part) or not last:
        namespace, last = "", _camel(full) or "Record"
    return Names(last, namespace, schema.get("description"), extension_of(schema).aliases)


def _camel(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() or not name else "_" + name


def attributes_of(names: Iterable[str]) -> dict[str, str]:
    """Properties' names as Python can write them, each another."""
    attributes: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        attribute = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "field"
        if attribute[0].isdigit():
            attribute = "field_" + attribute
        while keyword.iskeyword(attribute) or attribute in taken:
            attribute += "_"
        taken.add(attribute)
        attributes[name] = attribute
    return attributes


def _is_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _is_symbol(text: str) -> bool:
    return _is_name(text) and not text.startswith("_") and text != "mro"


def _length(schema: dict[str, Any], noun: str) -> tuple[Length, ...]:
    least, most = schema.get("min" + noun, 0), schema.get("max" + noun)
    return (Length(least, most),) if least or most is not None else ()


def _under(place: Place, *path: object) -> Place:
    return Place(place.document, place.pointer + pointer(path))


def _indescribable(what: str, place: Place) -> InvalidSchema:
    return InvalidSchema(
        f"The schema allows {what}, which a record class cannot say.",
        code="schema.indescribable",
        next="Give it a type, or read such messages without a class.",
        pointer=place.pointer or "/",
    )
