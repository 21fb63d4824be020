"""Protobuf messages as columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.codec_rows import CodecColumns, parsed, recursion_column
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.shapes import (
    Column,
    list_column,
    map_column,
    opaque_column,
    same,
    struct_column,
)

_UNSIGNED = Column(pa.decimal128(20, 0), same, lambda value: None if value is None else int(value))
_SCALARS = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
}
_SPECIAL = {
    "google.protobuf.Timestamp": Column(pa.timestamp("us", "UTC"), same, same),
    "google.protobuf.Duration": Column(pa.duration("us"), same, same),
    "confluent.type.Decimal": Column(
        pa.string(),
        lambda value: None if value is None else str(value),
        lambda text: None if text is None else Decimal(text),
    ),
}
_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.ListValue", "google.protobuf.Value"})


class ProtobufColumns(CodecColumns):
    """The columns are those of the schema's first message, the one that is written."""

    schema_type = "PROTOBUF"

    def root(self, schema: SchemaText, mapping: Mapping) -> Column:
        return _root(schema, mapping)


def _root(schema: SchemaText, mapping: Mapping) -> Column:
    messages: Any = getattr(parsed(schema), "messages", {})
    if not messages:
        raise InvalidSchema("The schema has no message.", next="Define one.")
    return _message(messages.get((0,)) or next(iter(messages.values())), mapping, frozenset())


def _message(message: Descriptor, mapping: Mapping, open: frozenset[str]) -> Column:
    name = message.full_name
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name in _JSON:
        return opaque_column("variant" if mapping.unions == "variant" else "json")
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return _single(message.fields_by_name["value"], mapping, open)
    if name in open:
        return recursion_column(name, mapping)
    return struct_column({each.name: _field(each, mapping, open | {name}) for each in message.fields})


def _field(field: FieldDescriptor, mapping: Mapping, open: frozenset[str]) -> Column:
    held = field.message_type
    if field.is_repeated and held is not None and held.GetOptions().map_entry:
        value = _single(held.fields_by_name["value"], mapping, open)
        return map_column(value, _single(held.fields_by_name["key"], mapping, open))
    column = _single(field, mapping, open)
    return list_column(column) if field.is_repeated else column


def _single(field: FieldDescriptor, mapping: Mapping, open: frozenset[str]) -> Column:
    if field.message_type is not None:
        return _message(field.message_type, mapping, open)
    if field.enum_type is not None:
        return Column(pa.string(), _enum_name, _enum_value)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return _UNSIGNED
    return Column(_SCALARS[field.type], same, same)


def _enum_name(value: Any) -> Any:
    """A number that the schema has no name for stays a number, as text."""
    return None if value is None else str(value)


def _enum_value(text: Any) -> Any:
    return int(text) if isinstance(text, str) and text.lstrip("-").isdigit() else text
