"""Thrift structs as columns.

The linked types of the format are told apart by what they have: an item, a key, an enum, a struct.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.codec_rows import CodecColumns, parsed, recursion_column
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.shapes import Column, list_column, map_column, same, struct_column

_BASES = {
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}


class ThriftColumns(CodecColumns):
    schema_type = "THRIFT"

    def root(self, schema: SchemaText, mapping: Mapping) -> Column:
        root: Any = getattr(parsed(schema), "root", None)
        if root is None:
            raise InvalidSchema("The schema has no struct.", next="Define one.")
        return _struct(root, mapping, frozenset())


def _struct(struct: Any, mapping: Mapping, open: frozenset[str]) -> Column:
    if struct.name in open:
        return recursion_column(struct.name, mapping)
    inside = open | {struct.name}
    return struct_column({each.name: _column(each.type, mapping, inside) for each in struct.fields})


def _column(type: Any, mapping: Mapping, open: frozenset[str]) -> Column:
    if hasattr(type, "struct"):
        return _struct(type.struct, mapping, open)
    if hasattr(type, "enum"):
        return Column(pa.string(), _name, _member)
    if hasattr(type, "key"):
        return map_column(_column(type.value, mapping, open), _column(type.key, mapping, open))
    if hasattr(type, "item"):
        return list_column(_column(type.item, mapping, open))
    if type == "uuid":
        return Column(pa.string(), _name, same)
    return Column(_BASES[type], same, same)


def _name(value: Any) -> Any:
    """An enum's number without a name stays a number, as text."""
    return None if value is None else str(value)


def _member(text: Any) -> Any:
    return int(text) if isinstance(text, str) and text.lstrip("-").isdigit() else text
