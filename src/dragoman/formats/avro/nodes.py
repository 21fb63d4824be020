"""A parsed Avro schema: a graph of nodes, in which a name has become the node that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.schema.logical import Logical
from dragoman.schema.types import MISSING

__all__ = [
    "MISSING",
    "PRIMITIVES",
    "Array",
    "Enum",
    "Field",
    "Fixed",
    "Logical",
    "Map",
    "Named",
    "Node",
    "Place",
    "Primitive",
    "Record",
    "Union",
    "label",
    "simple",
]

PRIMITIVES = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Place:
    """A JSON pointer that shares its beginning with its parent's: a deep schema has many long ones."""

    parent: Place | None = None
    token: str = ""

    def __truediv__(self, token: str | int) -> Place:
        return Place(self, str(token))

    def __str__(self) -> str:
        tokens: list[str] = []
        place: Place | None = self
        while place is not None and place.parent is not None:
            tokens.append(place.token.replace("~", "~0").replace("/", "~1"))
            place = place.parent
        return "".join(f"/{token}" for token in reversed(tokens))


@dataclass(slots=True, eq=False, repr=False)
class Primitive:
    kind: str
    place: Place
    logical: Logical | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Fixed:
    name: str
    place: Place
    size: int
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["fixed"] = "fixed"


@dataclass(slots=True, eq=False, repr=False)
class Enum:
    name: str
    place: Place
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["enum"] = "enum"


@dataclass(slots=True, eq=False, repr=False)
class Array:
    place: Place
    items: Node
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["array"] = "array"


@dataclass(slots=True, eq=False, repr=False)
class Map:
    place: Place
    values: Node
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["map"] = "map"


@dataclass(slots=True, eq=False, repr=False)
class Union:
    place: Place
    branches: tuple[Node, ...]
    kind: Literal["union"] = "union"


@dataclass(slots=True, eq=False, repr=False)
class Field:
    name: str
    place: Place
    type: Node
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Record:
    """``fields`` are complete once the schema is parsed: until then a recursive name finds none."""

    name: str
    place: Place
    fields: tuple[Field, ...] = ()
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["record", "error"] = "record"


Named = Record | Enum | Fixed
Node = Primitive | Fixed | Enum | Array | Map | Union | Record


def simple(name: str) -> str:
    """The name without its namespace."""
    return name.rpartition(".")[2]


def label(node: Node) -> str:
    """What a union calls this branch: the full name of a named type, else its kind."""
    return node.name if isinstance(node, Record | Enum | Fixed) else node.kind
