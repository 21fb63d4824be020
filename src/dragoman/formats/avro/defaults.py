"""Defaults are written as JSON in the schema, and checked when it is parsed."""

from __future__ import annotations

import sys
from typing import Any

from dragoman.formats.avro.deep import Deep, done
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Place,
    Primitive,
    Record,
    Union,
)

Fault = tuple[Place, str] | None

_GREATEST_FLOAT = int(sys.float_info.max)
_RANGES = {"int": 2**31, "long": 2**63}


def fault_in_default(node: Node, value: Any, place: Place) -> Deep[Fault]:
    """Where and why a JSON value is no default of this type; ``None`` if it is one."""
    match node:
        case Primitive():
            fits = _fits(node.kind, value)
            return done(None if fits else (place, f"{value!r:.60} is not of type {node.kind}."))
        case Fixed():
            fits = _is_bytes(value) and len(value) == node.size
            return done(None if fits else (place, f"{value!r:.60} is not {node.size} bytes."))
        case Enum():
            fits = isinstance(value, str) and value in node.symbols
            return done(None if fits else (place, f"{value!r:.60} is not a symbol of {node.name}."))
        case Array():
            return _fault_in_array(node, value, place)
        case Map():
            return _fault_in_map(node, value, place)
        case Union():
            return _fault_in_union(node, value, place)
        case Record():
            return _fault_in_record(node, value, place)


def _fault_in_array(node: Array, value: Any, place: Place) -> Deep[Fault]:
    if not isinstance(value, list):
        return place, "an array is written as a list."
    for index, item in enumerate(value):
        fault: Fault = yield fault_in_default(node.items, item, place / index)
        if fault is not None:
            return fault
    return None


def _fault_in_map(node: Map, value: Any, place: Place) -> Deep[Fault]:
    if not isinstance(value, dict):
        return place, "a map is written as an object."
    for key, item in value.items():
        fault: Fault = yield fault_in_default(node.values, item, place / key)
        if fault is not None:
            return fault
    return None


def _fault_in_union(node: Union, value: Any, place: Place) -> Deep[Fault]:
    for branch in node.branches:
        fault = yield fault_in_default(branch, value, place)
        if fault is None:
            return None
    return place, f"{value!r:.60} fits no branch of the union."


def _fault_in_record(node: Record, value: Any, place: Place) -> Deep[Fault]:
    if not isinstance(value, dict):
        return place, "a record is written as an object."
    for field in node.fields:
        given = value.get(field.name, field.default)
        if given is MISSING:
            return place, f"the field {field.name} is missing and has no default."
        fault: Fault = yield fault_in_default(field.type, given, place / field.name)
        if fault is not None:
            return fault
    return None


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = _RANGES[kind]
            return type(value) is int and -limit <= value < limit
        case "float" | "double":
            return type(value) is float or (type(value) is int and abs(value) <= _GREATEST_FLOAT)
        case "bytes":
            return _is_bytes(value)
        case _:
            return isinstance(value, str)


def _is_bytes(value: Any) -> bool:
    """Bytes are written as a string of the code points 0 to 255."""
    return isinstance(value, str) and all(ord(character) < 256 for character in value)
