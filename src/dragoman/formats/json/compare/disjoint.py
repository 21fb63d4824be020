"""Whether two schemas can be told to have no value in common."""

from __future__ import annotations

from dragoman.formats.json.compare.judge import Side
from dragoman.formats.json.document import compact
from dragoman.formats.json.node import (
    Array,
    Boolean,
    Combined,
    Criterion,
    Node,
    Nothing,
    Null,
    Number,
    Object,
    String,
    Typed,
    Values,
)
from dragoman.formats.json.normal import plain

_DEPTH = 8


def disjoint(one: Side, other: Side, depth: int = 0) -> bool:
    """True only if it is certain."""
    left, right = one.node, other.node
    if isinstance(left, Nothing) or isinstance(right, Nothing):
        return True
    if depth > _DEPTH:
        return False
    if isinstance(left, Combined):
        branches = (Side(one.model, one.model.at(branch)) for branch in left.branches)
        parts = (disjoint(branch, other, depth + 1) for branch in branches)
        return any(parts) if left.criterion is Criterion.ALL else all(parts)
    if isinstance(right, Combined):
        return disjoint(other, one, depth + 1)
    kinds, others = _kinds(left), _kinds(right)
    if kinds is not None and others is not None and not kinds & others:
        return True
    if isinstance(left, Values) and isinstance(right, Values):
        return not _texts(left) & _texts(right)
    if isinstance(left, Object) and isinstance(right, Object):
        return left.demanded and right.demanded and _disjoint_property(one, left, other, right, depth)
    return False


def _disjoint_property(one: Side, left: Object, other: Side, right: Object, depth: int) -> bool:
    """Both require one property, and cannot agree on it: a discriminator, for example."""
    shared = left.required & right.required & left.properties.keys() & right.properties.keys()
    return any(
        disjoint(
            Side(one.model, one.model.at(left.properties[name])),
            Side(other.model, other.model.at(right.properties[name])),
            depth + 1,
        )
        for name in sorted(shared)
    )


def _texts(node: Values) -> set[str]:
    return {compact(plain(each)) for each in node.values}


def _kinds(node: Node) -> frozenset[str] | None:
    """The JSON types of a node's values; ``None`` if it may have any."""
    match node:
        case Null():
            return frozenset({"null"})
        case Boolean():
            return frozenset({"boolean"})
        case Values():
            return frozenset(_kind(each) for each in node.values)
        case Typed() if not node.demanded:
            return None
        case String():
            return frozenset({"string"})
        case Number():
            return frozenset({"number"})
        case Array():
            return frozenset({"array"})
        case Object():
            return frozenset({"object"})
        case _:
            return None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
