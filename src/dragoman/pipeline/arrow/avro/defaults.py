"""The column of a field that the writer does not have: its default, over and over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.target import Opaque
from dragoman.pipeline.arrow.avro.tree import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    optional,
)
from dragoman.pipeline.arrow.rejection import Fault

_ENCODED = {"string": "utf-8", "bytes": "latin-1"}
_PYTHON = {"null": type(None), "boolean": bool, "int": int, "long": int, "float": float | int}


def default_column(field: Field, type: Any, resolve: Resolver, path: str) -> Callable[[int], Any]:
    """A function from the number of rows to the column.

    The default is read as if a writer with the reader's own schema had sent it: ``type`` is how such a
    value lies in the bytes, ``resolve`` makes the column from it.
    """
    one = _one(field, type, resolve, path)

    def column(count: int) -> Any:
        if one.null_count:
            return pa.nulls(count, one.type)
        return one.take(pa.array(np.zeros(count, dtype=np.int32)))

    return column


def _one(field: Field, type: Any, resolve: Resolver, path: str) -> Any:
    faults: list[Fault] = []
    try:
        column = resolve(pa.array([wire_value(field.node, field.default)], type), faults)
    except (pa.ArrowException, LookupError, TypeError, AttributeError, ValueError) as error:
        raise InvalidSchema(
            f"The default {field.default!r} is not of the field's type.", path=path
        ) from error
    for fault in faults:
        if fault.mask.any():
            raise InvalidSchema(f"The default {field.default!r}: {fault.rejection.reason}", path=path)
    return column


def wire_value(target: Any, value: Any) -> Any:
    """A default of the schema's JSON as the row reader would give it."""
    match target:
        case Record():
            return {
                each.name: wire_value(each.node, value.get(each.name, each.default)) for each in target.fields
            }
        case Array():
            return [wire_value(target.items, each) for each in value]
        case Map():
            return [(key.encode(), wire_value(target.values, each)) for key, each in value.items()]
        case Union():
            return _union_value(target, value)
        case Opaque():
            return json.dumps(value).encode()
        case Fixed():
            return value.encode("latin-1")
        case Primitive() if target.kind in _ENCODED:
            return value.encode(_ENCODED[target.kind])
        case _:
            return value


def _union_value(target: Union, value: Any) -> Any:
    inner = optional(target)
    if inner is not None:
        return None if value is None else wire_value(inner, value)
    index = next((i for i, each in enumerate(target.branches) if _fits(each, value)), None)
    if index is None:
        raise ValueError(f"{value!r} fits no branch")
    return {"tag": index, f"b{index}": wire_value(target.branches[index], value)}


def _fits(target: Any, value: Any) -> bool:
    match target:
        case Record() | Map() | Opaque():
            return isinstance(value, dict)
        case Array():
            return isinstance(value, list)
        case Enum():
            return value in target.symbols
        case Fixed():
            return isinstance(value, str) and len(value) == target.size
        case _ if target == NULL:
            return value is None
        case _:
            expected = {"string": str, "bytes": str, "double": float | int}.get(target.kind) or _PYTHON[
                target.kind
            ]
            return isinstance(value, expected) and (target.kind == "boolean" or not isinstance(value, bool))
