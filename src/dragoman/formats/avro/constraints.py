"""Constraints in schema texts. Avro has none of its own, so they go by their names in JSON Schema."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from dragoman.formats.avro.nodes import Array, Fixed, Map, Node, Primitive
from dragoman.schema.markers import Constraint, Length, Max, Min, Pattern

_COUNTED = {"array": "Items", "map": "Properties"}
_BOUNDS: dict[str, Callable[[Any], Constraint]] = {
    "minimum": Min,
    "exclusiveMinimum": lambda value: Min(value, exclusive=True),
    "maximum": Max,
    "exclusiveMaximum": lambda value: Max(value, exclusive=True),
}


def written(constraints: Iterable[Constraint], kind: str) -> dict[str, Any]:
    """The properties that state these constraints in a type of this kind."""
    found: dict[str, Any] = {}
    for each in constraints:
        match each:
            case Min():
                found["exclusiveMinimum" if each.exclusive else "minimum"] = _plain(each.value)
            case Max():
                found["exclusiveMaximum" if each.exclusive else "maximum"] = _plain(each.value)
            case Length():
                counted = _COUNTED.get(kind, "Length")
                found[f"min{counted}"] = each.min
                if each.max is not None:
                    found[f"max{counted}"] = each.max
            case Pattern():
                found["pattern"] = each.regex
    return found


def stated(node: Node) -> tuple[Constraint, ...]:
    """The constraints that a type's properties state. What cannot be understood means nothing to us."""
    match node:
        case Array() | Map():
            return _lengths(node.properties, _COUNTED[node.kind])
        case Primitive(kind="string", logical=None):
            return (*_lengths(node.properties, "Length"), *_pattern(node.properties))
        case Primitive(kind="bytes", logical=None):
            return _lengths(node.properties, "Length")
        case Primitive() | Fixed():
            return _bounds(node)
        case _:
            return ()


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)


def _lengths(properties: Mapping[str, Any], counted: str) -> tuple[Constraint, ...]:
    low, high = _count(properties.get(f"min{counted}")), _count(properties.get(f"max{counted}"))
    return () if low is None and high is None else (Length(low or 0, high),)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _pattern(properties: Mapping[str, Any]) -> tuple[Constraint, ...]:
    regex = properties.get("pattern")
    if not isinstance(regex, str):
        return ()
    try:
        re.compile(regex)
    except re.error:
        return ()
    return (Pattern(regex),)


def _bounds(node: Primitive | Fixed) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    for name, make in _BOUNDS.items():
        value = _bound(node, node.properties.get(name))
        if value is not None:
            found.append(make(value))
    return tuple(found)


def _bound(node: Primitive | Fixed, value: Any) -> Any:
    """A bound as the Python value that plain values of this type are compared with."""
    logical = node.logical.name if node.logical else ""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        if logical == "decimal":
            return Decimal(str(value)) if number or isinstance(value, str) else None
        if node.kind not in ("int", "long", "float", "double"):
            return None
        if number or not isinstance(value, str):
            return value if number else None
        if logical == "date":
            return dt.date.fromisoformat(value)
        if logical.startswith("time-"):
            return dt.time.fromisoformat(value)
        return _moment(value, logical) if "timestamp" in logical else None
    except (ValueError, InvalidOperation):
        return None


def _moment(text: str, logical: str) -> dt.datetime | None:
    """A point in time without a zone is meant in UTC; a local time with one means nothing."""
    moment = dt.datetime.fromisoformat(text)
    if logical.startswith("local"):
        return moment if moment.tzinfo is None else None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
