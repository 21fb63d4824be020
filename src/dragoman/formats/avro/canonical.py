"""The forms of a schema that do not depend on its layout, and its fingerprints.

The Parsing Canonical Form keeps only what decides about the bytes. It has no defaults, aliases, logical types
and documentation: two schemas with the same form may still be resolved differently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from dragoman.formats.avro.deep import Deep, run
from dragoman.formats.avro.jsontext import dumps
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)

_EMPTY_64 = 0xC15D213AA4D7A795


def canonical(root: Node) -> str:
    """The Parsing Canonical Form. Types of other schemas are written out where they are first used."""
    return dumps(run(_canonical(root, set())))


def normalised(root: Node, elsewhere: Iterable[str] = ()) -> str:
    """Everything the schema says, in one fixed order: attributes sorted, names in full, no empty wrappers.

    ``elsewhere`` are the types that other schemas define: they stay names.
    """
    return dumps(run(_full(root, set(elsewhere), "")))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def crc64(text: str) -> int:
    """Avro's own 64-bit fingerprint (a Rabin fingerprint)."""
    table = _table()
    found = _EMPTY_64
    for byte in text.encode():
        found = (found >> 8) ^ table[(found ^ byte) & 0xFF]
    return found


@cache
def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY_64 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _canonical(node: Node, seen: set[str]) -> Deep[Any]:
    match node:
        case Primitive():
            return node.kind
        case Array():
            return {"type": "array", "items": (yield _canonical(node.items, seen))}
        case Map():
            return {"type": "map", "values": (yield _canonical(node.values, seen))}
        case Union():
            branches = []
            for branch in node.branches:
                branches.append((yield _canonical(branch, seen)))
            return branches
        case Enum() | Fixed() | Record():
            if node.name in seen:
                return node.name
            seen.add(node.name)
            form: dict[str, Any] = {"name": node.name, "type": node.kind}
            if isinstance(node, Enum):
                return form | {"symbols": list(node.symbols)}
            if isinstance(node, Fixed):
                return form | {"size": node.size}
            fields = []
            for field in node.fields:
                fields.append({"name": field.name, "type": (yield _canonical(field.type, seen))})
            return form | {"fields": fields}


def _full(node: Node, seen: set[str], namespace: str) -> Deep[Any]:
    """``namespace`` is that of the record around it."""
    match node:
        case Primitive():
            return {"type": node.kind} | _sorted(node.properties) if node.properties else node.kind
        case Array():
            items = yield _full(node.items, seen, namespace)
            return {"type": "array", "items": items} | _sorted(node.properties)
        case Map():
            values = yield _full(node.values, seen, namespace)
            return {"type": "map", "values": values} | _sorted(node.properties)
        case Union():
            branches = []
            for branch in node.branches:
                branches.append((yield _full(branch, seen, namespace)))
            return branches
        case Enum() | Fixed() | Record():
            if node.name in seen:
                return node.name
            seen.add(node.name)
            form: dict[str, Any] = {"type": node.kind, "name": node.name}
            own = node.name.rpartition(".")[0]
            if namespace and not own:
                # Without a word it would take the namespace around it.
                form["namespace"] = ""
            if isinstance(node, Record):
                fields = []
                for field in node.fields:
                    fields.append((yield _full_field(field, seen, own)))
                form["fields"] = fields
            elif isinstance(node, Enum):
                form["symbols"] = list(node.symbols)
                if node.default is not None:
                    form["default"] = node.default
            else:
                form["size"] = node.size
            if node.aliases:
                form["aliases"] = sorted(node.aliases)
            return form | _sorted(node.properties)


def _full_field(field: Field, seen: set[str], namespace: str) -> Deep[Any]:
    form: dict[str, Any] = {"name": field.name, "type": (yield _full(field.type, seen, namespace))}
    if field.default is not MISSING:
        form["default"] = yield _in_order(field.default)
    if field.aliases:
        form["aliases"] = sorted(field.aliases)
    properties = {
        key: value for key, value in field.properties.items() if (key, value) != ("order", "ascending")
    }
    return form | _sorted(properties)


def _in_order(value: Any) -> Deep[Any]:
    """A JSON value with its objects' keys sorted."""
    if isinstance(value, dict):
        ordered = {}
        for key in sorted(value):
            ordered[key] = yield _in_order(value[key])
        return ordered
    if isinstance(value, list):
        items = []
        for item in value:
            items.append((yield _in_order(item)))
        return items
    return value


def _sorted(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: run(_in_order(properties[key])) for key in sorted(properties)}
