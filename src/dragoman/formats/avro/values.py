"""A default's JSON as the Python value that a codec puts in."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any
from uuid import UUID

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro import runtime
from dragoman.formats.avro.binding import bound, python_of
from dragoman.formats.avro.deep import run
from dragoman.formats.avro.defaults import fault_in_default
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Fixed,
    Logical,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)
from dragoman.formats.avro.source import Source
from dragoman.schema import types
from dragoman.schema.types import Type

_IMMUTABLE = (type(None), bool, int, float, str, bytes, dt.date, dt.time, UUID)


def value_of_default(node: Node, json: Any, type: Type | None) -> Any:
    """The value of a default that was checked when the schema was parsed."""
    type = bound(type, node, "default")
    match node:
        case Union():
            return value_of_default(branch_of_default(node, json), json, type)
        case Array():
            inner = type.items if isinstance(type, types.ArrayType) else None
            made = [value_of_default(node.items, item, inner) for item in json]
            return type.python(made) if isinstance(type, types.ArrayType) else made
        case Map():
            inner = type.values if isinstance(type, types.MapType) else None
            return {key: value_of_default(node.values, item, inner) for key, item in json.items()}
        case Enum():
            return type.cls[json] if isinstance(type, types.EnumType) else json
        case Record():
            return _record(node, json, type)
        case Fixed():
            return _scalar(json.encode("latin-1"), node.logical, type)
        case Primitive():
            value = json.encode("latin-1") if node.kind == "bytes" else json
            if node.kind in ("float", "double"):
                value = float(value)
            return _scalar(value, node.logical, type)


def branch_of_default(node: Union, json: Any) -> Node:
    """The first branch that a default fits. That there is one was checked when the schema was parsed."""
    return next(each for each in node.branches if run(fault_in_default(each, json, node.place)) is None)


def _record(node: Record, json: Any, type: Type | None) -> Any:
    given = {field.name: json.get(field.name, field.default) for field in node.fields}
    if not isinstance(type, types.RecordType):
        return {
            field.name: value_of_default(field.type, given[field.name], None)
            for field in node.fields
            if given[field.name] is not MISSING
        }
    arguments = {}
    by_name = {field.name: field for field in node.fields}
    for part in type.fields:
        if part.name in by_name:
            field = by_name[part.name]
            arguments[part.argument] = value_of_default(field.type, given[field.name], part.type)
    return type.construct(**arguments)


def _scalar(value: Any, logical: Logical | None, type: Type | None) -> Any:
    wanted = python_of(type)
    if logical is None or wanted in (int, str, bytes):
        return value
    try:
        return convert(value, logical, wanted)
    except (ValueError, OverflowError) as error:
        # The specification checks defaults without their logical type. Plain values may do without it, too.
        if type is None:
            return value
        raise IncompatibleSchema(
            f"A default is not of type {logical.name}, as the class has it: {error}.",
            code="schema.class-mismatch",
            next="Correct the default in the schema.",
        ) from error


def convert(value: Any, logical: Logical, wanted: Any = None) -> Any:
    """From the bare value to what it means. Without ``wanted``, nanoseconds stay a number."""
    name = logical.name
    match name:
        case "date":
            return dt.date.fromordinal(value + runtime.EPOCH_DAY)
        case "decimal":
            return runtime.decimal_of(value, logical.precision, logical.scale)
        case "uuid":
            return UUID(bytes=value) if isinstance(value, bytes) else UUID(value)
        case "duration":
            made = runtime.duration_of(value)
            return made.timedelta() if wanted is dt.timedelta else made
        case "time-millis":
            return runtime.time_of(value * 1000)
        case "time-micros":
            return runtime.time_of(value)
    if name.endswith("nanos") and wanted is None:
        return value
    epoch = runtime.LOCAL_EPOCH if name.startswith("local") else runtime.EPOCH
    unit = name.rpartition("-")[2]
    micros = {"millis": value * 1000, "micros": value, "nanos": value // 1000}[unit]
    return epoch + dt.timedelta(microseconds=micros)


def is_shareable(value: Any) -> bool:
    """Whether all messages may have the same value, since nobody can change it."""
    return isinstance(value, _IMMUTABLE)


def as_source(source: Source, value: Any) -> str:
    """An expression that gives the value, a fresh one each time if it can be changed."""
    if isinstance(value, list | dict | set) and not value:
        return {list: "[]", dict: "{}", set: "set()"}[type(value)]
    name = source.bind(value, "default")
    if is_shareable(value):
        return name
    source.scope["deepcopy"] = copy.deepcopy
    return f"deepcopy({name})"


def class_default(part: types.Field, owner: types.RecordType) -> Any:
    if part.default is MISSING:
        raise IncompatibleSchema(
            f"{owner.cls.__qualname__}.{part.attribute} has no default, and is not in the schema.",
            code="schema.class-mismatch",
            field=part.name,
        )
    return part.default
