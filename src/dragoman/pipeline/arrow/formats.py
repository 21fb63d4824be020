"""The column formats by schema type, each loaded when its first schema is met."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.arrow.port import ColumnFormat

_FORMATS = {
    "AVRO": "dragoman.pipeline.arrow.avro:AvroColumns",
    "JSON": "dragoman.pipeline.arrow.json_columns:JsonColumns",
    "PROTOBUF": "dragoman.pipeline.arrow.protobuf_columns:ProtobufColumns",
    "THRIFT": "dragoman.pipeline.arrow.thrift_columns:ThriftColumns",
}


@cache
def column_format(schema_type: str) -> ColumnFormat:
    if schema_type not in _FORMATS:
        raise ConfigurationError(
            f"Schemas of type {schema_type} cannot be read as columns.",
            next=f"Use one of {', '.join(sorted(_FORMATS))}.",
        )
    module, _, name = _FORMATS[schema_type].partition(":")
    found: ColumnFormat = getattr(import_module(module), name)()
    return found
