"""Record classes of a Thrift schema. What they describe becomes the same root again, as far as it can."""

from __future__ import annotations

from enum import Enum as PythonEnum
from functools import reduce
from operator import or_
from typing import Annotated, Any
from uuid import UUID

from dragoman.core.errors import InvalidSchema
from dragoman.formats.thrift.markers import Id, Kind
from dragoman.formats.thrift.model import (
    Base,
    Enum,
    EnumType,
    Field,
    ListType,
    MapType,
    Requiredness,
    SetType,
    Struct,
    StructType,
    Type,
)
from dragoman.formats.thrift.schema import ThriftSchema
from dragoman.schema.making import Attribute, annotate, attribute_name, make_enum, make_record
from dragoman.schema.markers import Int, Name
from dragoman.schema.types import MISSING

_PLAIN: dict[Base, Any] = {
    Base.BOOL: bool,
    Base.BYTE: Annotated[int, Kind("i8")],
    Base.I16: Annotated[int, Kind("i16")],
    Base.I32: Int,
    Base.I64: int,
    Base.DOUBLE: float,
    Base.STRING: str,
    Base.BINARY: bytes,
    Base.UUID: UUID,
}


def record_class(schema: ThriftSchema) -> type:
    """The class of the root; others hang on its annotations. Raises ``InvalidSchema``.

    A union becomes a union of Python where its fields are of different classes, else a class of its own.
    """
    if schema.root is None:
        raise InvalidSchema("The schema has no struct.", next="Define one.")
    return _Classes(schema.namespace).root(schema.root)


class _Classes:
    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.structs: dict[str, type] = {}
        self.enums: dict[str, type[PythonEnum]] = {}
        self.waiting: list[Struct] = []

    def root(self, struct: Struct) -> type:
        made = self.declared(struct)
        while self.waiting:
            each = self.waiting.pop()
            annotations = {attribute_name(field.name): self.field(field, each) for field in each.fields}
            annotate(self.structs[each.name], annotations)
        return made

    def declared(self, struct: Struct) -> type:
        """The class of a struct, which is annotated later when it is new."""
        if struct.name not in self.structs:
            attributes = [
                Attribute(attribute_name(field.name), self.default(field, struct)) for field in struct.fields
            ]
            self.structs[struct.name] = make_record(struct.name, self.namespace, attributes)
            self.waiting.append(struct)
        return self.structs[struct.name]

    def enum(self, enum: Enum) -> type[PythonEnum]:
        if enum.name not in self.enums:
            members = [(each.name, each.number) for each in enum.members]
            self.enums[enum.name] = make_enum(enum.name, self.namespace, members)
        return self.enums[enum.name]

    def default(self, field: Field, struct: Struct) -> Any:
        if field.default is not None and isinstance(field.type, Base):
            return field.initial
        if field.default is not None and isinstance(field.type, EnumType):
            return self.enum(field.type.enum)[field.initial]
        required = field.requiredness is Requiredness.REQUIRED and struct.kind != "union"
        return MISSING if required else None

    def field(self, field: Field, struct: Struct) -> Any:
        marks: list[Any] = [Id(field.id)]
        if attribute_name(field.name) != field.name:
            marks.append(Name(field.name))
        type = self.type(field.type, field.name)
        if self.default(field, struct) is None:
            type = type | None
        return Annotated[(type, *marks)]

    def type(self, type: Type, name: str) -> Any:
        match type:
            case Base():
                return _PLAIN[type]
            case EnumType():
                return self.enum(type.enum)
            case StructType():
                return self.struct(type.struct, name)
            case ListType():
                return list[self.type(type.item, name)]  # type: ignore[misc]
            case SetType() if isinstance(type.item, Base | EnumType):
                return set[self.type(type.item, name)]  # type: ignore[misc]
            case SetType():
                return list[self.type(type.item, name)]  # type: ignore[misc]
            case MapType() if type.key is Base.STRING:
                return dict[str, self.type(type.value, name)]  # type: ignore[misc]
        raise InvalidSchema(f"The map {name!r} has other keys than strings, which no record has.", field=name)

    def struct(self, struct: Struct, name: str) -> Any:
        if struct.kind != "union":
            return self.declared(struct)
        branches = [self.type(field.type, name) for field in struct.fields]
        if _distinct(struct):
            return reduce(or_, branches)
        return self.declared(struct)


def _distinct(struct: Struct) -> bool:
    """Whether Python can tell the fields of a union apart by the classes of their values."""
    kinds: list[object] = []
    for field in struct.fields:
        match field.type:
            case Base.BYTE | Base.I16 | Base.I32 | Base.I64:
                kinds.append(int)
            case Base():
                kinds.append(_PLAIN[field.type])
            case EnumType():
                kinds.append(field.type.enum.name)
            case StructType() if field.type.struct.kind != "union":
                kinds.append(field.type.struct.name)
            case _:
                return False
    return len(set(kinds)) == len(kinds) > 1
