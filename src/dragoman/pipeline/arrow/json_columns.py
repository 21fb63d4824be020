"""JSON Schema as columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from dragoman.core.errors import ConfigurationError, InvalidSchema
from dragoman.pipeline.arrow.codec_rows import CodecColumnDecoder, CodecColumnEncoder, codec_of, parsed
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import ColumnDecoder, ColumnEncoder, SchemaText, whole_type
from dragoman.pipeline.arrow.rejection import Malformed, Reason
from dragoman.pipeline.arrow.variant import VARIANT_TYPE, to_json, to_variant

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """``inward`` shapes a document's value for Arrow, ``outward`` makes it one again."""

    type: Any
    inward: Callable[[Any], Any]
    outward: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


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
    "boolean": Column(pa.bool_(), _same, _same),
    "integer": Column(pa.int64(), _integer, _same),
    "number": Column(pa.float64(), _double, _same),
    "string": Column(pa.string(), _same, _same),
    "null": Column(pa.null(), _same, _same),
}
_FORMATS = {
    "date-time": Column(pa.timestamp("us", "UTC"), _moment, _iso),
    "date": Column(pa.date32(), _day, _iso),
}


class JsonColumns:
    schema_type = "JSON"

    def struct_type(self, reader: SchemaText, mapping: Mapping) -> Any:
        return _root(reader, mapping).type

    def decoder(self, writer: SchemaText, reader: SchemaText | None, mapping: Mapping) -> ColumnDecoder:
        codec = codec_of(writer, reader)
        if reader is None:
            form = to_variant if mapping.whole == "variant" else to_json
            return CodecColumnDecoder(codec, whole_type(mapping), lambda value: {"value": form(value)})
        column = _root(reader, mapping)
        return CodecColumnDecoder(codec, column.type, column.inward)

    def encoder(self, writer: SchemaText, schema_id: int, mapping: Mapping) -> ColumnEncoder:
        column = _root(writer, mapping)
        names = {each.name for each in column.type}

        def problems(type: Any) -> list[str]:
            return [f"{each.name}: not in the contract" for each in type if each.name not in names]

        return CodecColumnEncoder(codec_of(writer, None), schema_id, column.outward, problems)


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
                return _list(self.column(schema["items"], open))
            case "string":
                return _FORMATS.get(schema.get("format", ""), _PLAIN["string"])
            case str() as kind if kind in _PLAIN:
                return _PLAIN[kind]
            case _:
                return self._opaque()

    def _object(self, schema: dict[str, Any], open: frozenset[str]) -> Column:
        properties = schema.get("properties")
        if properties:
            return _struct({name: self.column(each, open) for name, each in properties.items()})
        values = schema.get("additionalProperties")
        return _map(self.column(values, open)) if isinstance(values, dict) and values else self._opaque()

    def _reference(self, reference: str, open: frozenset[str]) -> Column:
        if reference in open:
            return self._recursion(reference)
        file, _, pointer = reference.partition("#")
        if file:
            if file not in self.others:
                raise InvalidSchema(f"The schema refers to {file!r}, which is not among its references.")
            inner = _Reader(self.others[file], self.mapping)
            return inner.column(_at(inner.document, pointer), open | {reference})
        return self.column(_at(self.document, pointer), open | {reference})

    def _recursion(self, reference: str) -> Column:
        if self.mapping.recursion == "refuse":
            raise ConfigurationError(
                f"The type {reference} contains itself, a table's columns cannot.",
                code="configuration.recursive-type",
                next="Set the option recursion to variant or json to keep the inner value whole.",
            )
        return _opaque(self.mapping.recursion)

    def _opaque(self) -> Column:
        """A value of several or unknown types: text, or VARIANT if unions are."""
        return _opaque("variant" if self.mapping.unions == "variant" else "json")


def _implied(schema: dict[str, Any]) -> Any:
    if "properties" in schema:
        return "object"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "string" if values and all(isinstance(each, str) for each in values) else ""


def _at(document: Any, pointer: str) -> Any:
    for part in filter(None, pointer.split("/")):
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document


def _opaque(form: str) -> Column:
    if form == "variant":
        return Column(VARIANT_TYPE, lambda value: None if value is None else to_variant(value), _same)
    return Column(
        pa.string(),
        lambda value: None if value is None else to_json(value),
        lambda text: None if text is None else json.loads(text),
    )


def _struct(columns: dict[str, Column]) -> Column:
    def inward(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        return {name: _placed(name, column.inward, value.get(name)) for name, column in columns.items()}

    def outward(row: Any) -> Any:
        if row is None:
            return None
        cells = {name: column.outward(row.get(name)) for name, column in columns.items()}
        return {name: cell for name, cell in cells.items() if cell is not None}

    return Column(pa.struct([(name, column.type) for name, column in columns.items()]), inward, outward)


def _placed(name: str, inward: Callable[[Any], Any], value: Any) -> Any:
    try:
        return inward(value)
    except Malformed as found:
        inner = found.rejection.path
        path = f"{name}.{inner}" if inner else name
        raise Malformed(found.rejection.code, found.rejection.reason, path) from None


def _list(items: Column) -> Column:
    return Column(
        pa.list_(pa.field("element", items.type)),
        lambda value: None if value is None else [items.inward(each) for each in value],
        lambda row: None if row is None else [items.outward(each) for each in row],
    )


def _map(values: Column) -> Column:
    return Column(
        pa.map_(pa.string(), pa.field("value", values.type)),
        lambda value: None if value is None else [(key, values.inward(each)) for key, each in value.items()],
        lambda row: None if row is None else {key: values.outward(each) for key, each in row},
    )
