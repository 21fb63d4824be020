"""The column of a field that the writer does not have: its default, over and over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.opaque import takes_default
from dragoman.pipeline.arrow.avro.target import Opaque
from dragoman.pipeline.arrow.avro.tree import (
    MISSING,
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
from dragoman.pipeline.arrow.rejection import Fault, Reason

_ENCODED = {"string": "utf-8", "bytes": "latin-1"}
_LIMITS = {"int": 2**31, "long": 2**63}
_TAKEN = (Reason.UUID, Reason.CONSTRAINT)
"""Defaults are not checked against a logical type or constraints, where the column can hold them."""


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
        if fault.mask.any() and fault.rejection.code not in _TAKEN:
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
    """Whether a branch takes a default, by the rules of the codecs: they take the first that does."""
    if value is MISSING:
        return False
    match target:
        case Opaque():
            return takes_default(target, value)
        case Record():
            return isinstance(value, dict) and all(
                _fits(each.node, value.get(each.name, each.default)) for each in target.fields
            )
        case Map():
            return isinstance(value, dict) and all(_fits(target.values, each) for each in value.values())
        case Array():
            return isinstance(value, list) and all(_fits(target.items, each) for each in value)
        case Union():
            return any(_fits(each, value) for each in target.branches)
        case Enum():
            return isinstance(value, str) and value in target.symbols
        case Fixed():
            return _is_bytes(value) and len(value) == target.size
        case _:
            return _fits_kind(target.kind, value)


def _fits_kind(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return type(value) is int and -_LIMITS[kind] <= value < _LIMITS[kind]
        case "float" | "double":
            return type(value) in (int, float)
        case "bytes":
            return _is_bytes(value)
        case _:
            return isinstance(value, str)


def _is_bytes(value: Any) -> bool:
    """Bytes are written as a string of the code points 0 to 255."""
    return isinstance(value, str) and all(ord(character) < 256 for character in value)
