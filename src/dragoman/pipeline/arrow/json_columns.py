"""JSON Schema as columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.codec_rows import CodecColumns, parsed, recursion_column
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.rejection import Malformed, Reason
from dragoman.pipeline.arrow.shapes import (
    Column,
    list_column,
    map_column,
    opaque_column,
    same,
    struct_column,
)
from dragoman.pipeline.arrow.variant import VARIANT_TYPE

_LARGEST = 2**63 - 1


def _integer(value: Any) -> Any:
    if isinstance(value, float):
        value = int(value)
    if value is not None and not -_LARGEST - 1 <= value <= _LARGEST:
        raise Malformed(Reason.RANGE, "The number does not fit 64 bits.")
    return value


def _moment(value: Any) -> Any:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Malformed(Reason.TIME, "The text is not a date and time.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _day(value: Any) -> Any:
    try:
        return None if value is None else date.fromisoformat(value)
    except ValueError:
        raise Malformed(Reason.TIME, "The text is not a date.") from None


def _iso(value: Any) -> Any:
    return None if value is None else value.isoformat()


def _double(value: Any) -> Any:
    return None if value is None else float(value)


_PLAIN = {
    "boolean": Column(pa.bool_(), same, same),
    "integer": Column(pa.int64(), _integer, same),
    "number": Column(pa.float64(), _double, same),
    "string": Column(pa.string(), same, same),
    "null": Column(pa.null(), same, same),
}
_FORMATS = {
    "date-time": Column(pa.timestamp("us", "UTC"), _moment, _iso),
    "date": Column(pa.date32(), _day, _iso),
}


class JsonColumns(CodecColumns):
    schema_type = "JSON"

    def root(self, schema: SchemaText, mapping: Mapping) -> Column:
        return _root(schema, mapping)


def _root(schema: SchemaText, mapping: Mapping) -> Column:
    parsed(schema)  # raises for a text that is not a schema
    column = _Reader(schema, mapping).column(json.loads(schema.text), frozenset())
    if pa.types.is_struct(column.type) and column.type != VARIANT_TYPE:
        return column
    inward, outward = column.inward, column.outward
    return Column(
        pa.struct([("value", column.type)]),
        lambda value: {"value": inward(value)},
        lambda row: outward(row["value"]),
    )


class _Reader:
    """``open`` holds the references being followed, so that a type that contains itself is noticed."""

    def __init__(self, schema: SchemaText, mapping: Mapping) -> None:
        self.document = json.loads(schema.text)
        self.others = dict(schema.references)
        self.mapping = mapping

    def column(self, schema: Any, open: frozenset[str]) -> Column:
        if not isinstance(schema, dict):
            return self._opaque()
        if "$ref" in schema:
            return self._reference(schema["$ref"], open)
        branches = schema.get("oneOf") or schema.get("anyOf")
        if branches:
            present = [each for each in branches if each != {"type": "null"}]
            return self.column(present[0], open) if len(present) == 1 else self._opaque()
        if "allOf" in schema:
            return self.column(schema["allOf"][0], open) if len(schema["allOf"]) == 1 else self._opaque()
        return self._typed(schema, open)

    def _typed(self, schema: dict[str, Any], open: frozenset[str]) -> Column:
        kinds = schema.get("type", _implied(schema))
        present = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"] or [
            "null"
        ]
        if len(present) != 1:
            return self._opaque()
        match present[0]:
            case "object":
                return self._object(schema, open)
            case "array" if isinstance(schema.get("items"), dict):
                return list_column(self.column(schema["items"], open))
            case "string":
                return _FORMATS.get(schema.get("format", ""), _PLAIN["string"])
            case str() as kind if kind in _PLAIN:
                return _PLAIN[kind]
            case _:
                return self._opaque()

    def _object(self, schema: dict[str, Any], open: frozenset[str]) -> Column:
        properties = schema.get("properties")
        if properties:
            return struct_column({name: self.column(each, open) for name, each in properties.items()})
        values = schema.get("additionalProperties")
        return (
            map_column(self.column(values, open)) if isinstance(values, dict) and values else self._opaque()
        )

    def _reference(self, reference: str, open: frozenset[str]) -> Column:
        if reference in open:
            return recursion_column(reference, self.mapping)
        file, _, pointer = reference.partition("#")
        if file:
            if file not in self.others:
                raise InvalidSchema(f"The schema refers to {file!r}, which is not among its references.")
            inner = _Reader(self.others[file], self.mapping)
            return inner.column(_at(inner.document, pointer), open | {reference})
        return self.column(_at(self.document, pointer), open | {reference})

    def _opaque(self) -> Column:
        """A value of several or unknown types: text, or VARIANT if unions are."""
        return opaque_column("variant" if self.mapping.unions == "variant" else "json")


def _implied(schema: dict[str, Any]) -> Any:
    if "properties" in schema:
        return "object"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "string" if values and all(isinstance(each, str) for each in values) else ""


def _at(document: Any, pointer: str) -> Any:
    for part in filter(None, pointer.split("/")):
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document
