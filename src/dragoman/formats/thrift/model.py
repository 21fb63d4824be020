"""A Thrift document: what is written in it, and the types that its names mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Annotations = tuple[tuple[str, str], ...]


class Base(StrEnum):
    BOOL = "bool"
    BYTE = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    UUID = "uuid"


INTEGERS = {Base.BYTE: 8, Base.I16: 16, Base.I32: 32, Base.I64: 64}
"""Integer types and their bits."""


class Requiredness(StrEnum):
    REQUIRED = "required"
    OPTIONAL = "optional"
    DEFAULT = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A type as it stands in the text; ``arguments`` are the types of a container's parts."""

    name: str
    arguments: tuple[Written, ...] = ()
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A string in a constant."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """The name of another constant, or of an enum's member, in a constant."""

    name: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    pairs: tuple[tuple[Value, Value], ...]


Value = int | float | bool | Text | Name | Items | Pairs


@dataclass(slots=True)
class Field:
    id: int
    name: str
    requiredness: Requiredness
    written: Written
    default: Value | None = None
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)
    type: Type = field(default=Base.BOOL, compare=False)
    initial: Any = field(default=None, compare=False)
    """The default as a plain value, and ``None`` without one. Known once the document is linked."""

    def annotation(self, name: str) -> str | None:
        return dict(self.annotations).get(name)


@dataclass(slots=True)
class EnumMember:
    name: str
    number: int
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Enum:
    name: str
    members: list[EnumMember]
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Struct:
    """``kind`` is struct, union or exception."""

    kind: str
    name: str
    fields: list[Field]
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)

    def annotation(self, name: str) -> str | None:
        return dict(self.annotations).get(name)

    @property
    def by_id(self) -> dict[int, Field]:
        return {each.id: each for each in self.fields}


@dataclass(slots=True)
class Typedef:
    name: str
    written: Written
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Const:
    name: str
    written: Written
    value: Value
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Function:
    name: str
    returns: Written | None
    arguments: list[Field]
    throws: list[Field]
    oneway: bool = False
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Service:
    name: str
    extends: str
    functions: list[Function]
    annotations: Annotations = ()
    at: int = field(default=0, compare=False)


Definition = Enum | Struct | Typedef | Const | Service


@dataclass(slots=True)
class Include:
    path: str
    at: int = field(default=0, compare=False)

    @property
    def prefix(self) -> str:
        """What the names of the included file start with."""
        return self.path.rpartition("/")[2].removesuffix(".thrift")


@dataclass(slots=True)
class Namespace:
    scope: str
    name: str
    annotations: Annotations = ()


@dataclass(slots=True)
class Document:
    includes: list[Include] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)

    def structs(self) -> Iterator[Struct]:
        return (each for each in self.definitions if isinstance(each, Struct))


@dataclass(frozen=True, slots=True)
class Linked:
    """A document whose names are resolved."""

    document: Document
    types: dict[str, Type]
    constants: dict[str, tuple[Value, Type]]

    def definition(self, name: str) -> Definition | None:
        return next((each for each in self.document.definitions if each.name == name), None)


@dataclass(frozen=True, slots=True)
class ListType:
    item: Type


@dataclass(frozen=True, slots=True)
class SetType:
    item: Type


@dataclass(frozen=True, slots=True)
class MapType:
    key: Type
    value: Type


@dataclass(frozen=True, slots=True, eq=False)
class EnumType:
    enum: Enum


@dataclass(frozen=True, slots=True, eq=False)
class StructType:
    """Refers to a struct, which may contain itself."""

    struct: Struct


Type = Base | ListType | SetType | MapType | EnumType | StructType
