"""An Avro schema as a tree of frozen nodes, references left as names so that it may be recursive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum as PlainEnum
from typing import Any, Literal

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.constraints import Constraints, constraints_in
from dragoman.schema.logical import logical_of

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class _Missing(PlainEnum):
    MISSING = 0


MISSING: Literal[_Missing.MISSING] = _Missing.MISSING


@dataclass(frozen=True, slots=True)
class Primitive:
    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    constraints: Constraints = ()


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    constraints: Constraints = ()
    kind: str = "fixed"


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    kind: str = "enum"


@dataclass(frozen=True, slots=True)
class Array:
    items: Node
    constraints: Constraints = ()
    kind: str = "array"


@dataclass(frozen=True, slots=True)
class Map:
    values: Node
    constraints: Constraints = ()
    kind: str = "map"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    node: Node
    default: Any = MISSING
    aliases: tuple[str, ...] = ()

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()
    kind: str = "record"


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[Node, ...]
    kind: str = "union"


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type used again. ``Tree.follow`` gives its definition."""

    name: str
    kind: str = "reference"


Node = Primitive | Fixed | Enum | Array | Map | Record | Union | Reference
Named = Fixed | Enum | Record
NULL = Primitive("null")
WHOLE = "whole message"
"""The name of a record that only wraps; no schema can have it."""


@dataclass(frozen=True, slots=True)
class Tree:
    """``root`` is always a record: any other type is wrapped as its field ``value``, same bytes."""

    root: Record
    names: Mapping[str, Named] = field(default_factory=dict)

    @property
    def unwrapped(self) -> Node:
        """The message's own type."""
        return self.root.fields[0].node if self.root.name == WHOLE else self.root

    def follow(self, node: Node) -> Node:
        return self.names[node.name] if isinstance(node, Reference) else node


def parse(text: str, references: Iterable[str] = ()) -> Tree:
    """``references`` are texts whose named types the text uses, the innermost first."""
    names: dict[str, Named] = {}
    parser = _Parser(names)
    for each in references:
        parser.node(_load(each), "")
    root = parser.node(_load(text), "")
    if isinstance(root, Reference):
        root = names[root.name]
    if not isinstance(root, Record):
        root = Record(WHOLE, (Field("value", root),))
    return Tree(root, names)


def wrapped(tree: Tree) -> Tree:
    """The root as the only field of a record: the same bytes."""
    if tree.root.name == WHOLE:
        return tree
    return Tree(Record(WHOLE, (Field("value", tree.root),)), tree.names)


def optional(node: Node) -> Node | None:
    """The type that may be null, for a union of just null and one type."""
    if isinstance(node, Union) and len(node.branches) == 2:
        first, second = node.branches
        if first == NULL and second != NULL:
            return second
        if second == NULL and first != NULL:
            return first
    return None


def short(name: str) -> str:
    return name.rpartition(".")[2]


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text.strip()


class _Parser:
    def __init__(self, names: dict[str, Named]) -> None:
        self.names = names
        self.open: set[str] = set()

    def node(self, schema: Any, namespace: str) -> Node:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return Union(tuple(self.node(branch, namespace) for branch in schema))
        if not isinstance(schema, dict) or "type" not in schema:
            raise InvalidSchema(f"{schema!r} is not an Avro type.")
        kind = schema["type"]
        match kind:
            case dict() | list():
                return self.node(kind, namespace)
            case "record" | "error":
                return self._record(schema, namespace)
            case "enum":
                return self._enum(schema, namespace)
            case "fixed":
                return self._fixed(schema, namespace)
            case "array":
                return Array(self.node(schema["items"], namespace), constraints_in(schema))
            case "map":
                return Map(self.node(schema["values"], namespace), constraints_in(schema))
            case str() if kind in PRIMITIVES:
                return Primitive(kind, *_logical(schema, kind), constraints_in(schema))
            case _:
                return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in (_full(name, namespace), name):
            if full in self.names or full in self.open:
                return Reference(full)
        raise InvalidSchema(f"{name!r} is neither an Avro type nor defined before it is used.")

    def _record(self, schema: dict[str, Any], namespace: str) -> Node:
        name, inner = _own_name(schema, namespace)
        self.open.add(name)
        fields = tuple(self._field(each, inner) for each in schema["fields"])
        self.open.discard(name)
        return self._define(Record(name, fields, _aliases(schema, inner)))

    def _field(self, schema: dict[str, Any], namespace: str) -> Field:
        return Field(
            schema["name"],
            self.node(schema["type"], namespace),
            schema.get("default", MISSING),
            tuple(schema.get("aliases", ())),
        )

    def _enum(self, schema: dict[str, Any], namespace: str) -> Node:
        name, inner = _own_name(schema, namespace)
        symbols = tuple(schema["symbols"])
        return self._define(Enum(name, symbols, schema.get("default"), _aliases(schema, inner)))

    def _fixed(self, schema: dict[str, Any], namespace: str) -> Node:
        name, inner = _own_name(schema, namespace)
        size = schema["size"]
        logical, precision, scale = _logical(schema, "fixed", size)
        limits = constraints_in(schema)
        return self._define(Fixed(name, size, _aliases(schema, inner), logical, precision, scale, limits))

    def _define(self, node: Named) -> Named:
        self.names[node.name] = node
        return node


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _own_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = schema.get("namespace", namespace) or ""
    return _full(name, inner), inner


def _aliases(schema: dict[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(_full(alias, namespace) for alias in schema.get("aliases", ()))


def _logical(schema: dict[str, Any], kind: str, size: int = 0) -> tuple[str | None, int, int]:
    """The logical type, precision and scale."""
    found = logical_of(schema, kind, size)
    return (None, 0, 0) if found is None else (found.name, found.precision, found.scale)
