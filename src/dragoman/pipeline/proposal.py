"""An Avro schema for columns that have no contract yet."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from dragoman.core.errors import ConfigurationError

_SIMPLE = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_signed_integer, "int"),
    (pa.types.is_float64, "double"),
    (pa.types.is_floating, "float"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)


def avro_schema_of(columns: Any, channel: str) -> str:
    """A record named after the channel; a column that may be null is optional with null as default."""
    return json.dumps(_record(list(columns), _name(channel)))


def _record(fields: list[Any], name: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": field.name, "type": ["null", kind], "default": None}
            if field.nullable
            else {"name": field.name, "type": kind}
            for field in fields
            for kind in (_type(field.type, f"{name}_{field.name}"),)
        ],
    }


def _type(kind: Any, name: str) -> Any:
    for test, avro in _SIMPLE:
        if test(kind):
            return avro
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _optional(kind.value_field, f"{name}_item")}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": _optional(kind.item_field, f"{name}_value")}
    if pa.types.is_struct(kind):
        return _record(list(kind), name)
    raise ConfigurationError(
        f"A column of type {kind} has no place in an Avro schema.", next="Cast it.", column=name
    )


def _optional(field: Any, name: str) -> Any:
    kind = _type(field.type, name)
    return ["null", kind] if field.nullable else kind


def _name(channel: str) -> str:
    words = re.split(r"\W+", channel)
    name = "".join(word[:1].upper() + word[1:] for word in words if word) or "Row"
    return name if not name[0].isdigit() else f"_{name}"
