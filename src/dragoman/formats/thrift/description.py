"""The Thrift text of a record class."""

from __future__ import annotations

import re

from dragoman.core.errors import InvalidSchema
from dragoman.formats.thrift.markers import Marks, marks_of
from dragoman.formats.thrift.schema import ThriftSchema
from dragoman.schema.binding import branches, python_type, unwrap
from dragoman.schema.markers import Primitive
from dragoman.schema.records import describe
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    Field,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
)

_SCALARS = {
    Primitive.BOOLEAN: "bool",
    Primitive.INT: "i32",
    Primitive.LONG: "i64",
    Primitive.FLOAT: "double",
    Primitive.DOUBLE: "double",
    Primitive.BYTES: "binary",
    Primitive.STRING: "string",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_text(cls: type) -> str:
    """A document whose root is the class. Raises ``InvalidSchema``."""
    file = _File()
    root = describe(cls)
    file.define(root)
    head = [f"namespace * {root.names.namespace}"] if root.names.namespace else []
    text = "\n\n".join([*head, *("\n".join(lines) for lines in file.parts.values())]) + "\n"
    ThriftSchema.from_text(text, {})
    return text


class _File:
    """Types are written before those that use them, so the class itself comes last and is the root."""

    def __init__(self) -> None:
        self.parts: dict[str, list[str]] = {}
        self.types: dict[str, object] = {}

    def define(self, type: RecordType | EnumType) -> str:
        """The name of a struct or enum, which is written unless it already is."""
        name = type.names.name
        if name not in self.types:
            self.claim(name, type)
            lines = self.enum(type) if isinstance(type, EnumType) else self.struct(type)
            self.parts[name] = [*comment(type.names.doc), *lines]
        elif self.types[name] is not type:
            raise InvalidSchema(
                f"Two types are called {name}.", next="Rename one of them with @record(name=)."
            )
        return name

    def claim(self, name: str, type: object) -> None:
        if _NAME.fullmatch(name) is None:
            raise InvalidSchema(
                f"{name!r} is not a name in Thrift.", next="Give it another with @record(name=)."
            )
        if name in self.types:
            raise InvalidSchema(f"Two types are called {name}.", next="Rename one of them.")
        self.types[name] = type

    def struct(self, record: RecordType) -> list[str]:
        marks = marks_of(record.cls)
        taken = {mark.id for mark in marks}
        last = 0
        lines = []
        for field, mark in zip(record.fields, marks, strict=True):
            id = mark.id
            if id is None:
                last += 1
                while last in taken:
                    last += 1
                id = last
            lines += [
                "  " + line for line in (*comment(field.doc), f"{id}: {self.field(record, field, mark)}")
            ]
        return [f"struct {record.names.name} {{", *lines, "}"]

    def field(self, record: RecordType, field: Field, mark: Marks) -> str:
        if _NAME.fullmatch(field.name) is None:
            raise self.refused(record, field, "has a name that Thrift does not allow")
        type, optional = unwrap(field.type)
        written = self.type(record, field, type, mark)
        requiredness = "optional " if optional else "required " if field.default is MISSING else ""
        was = f' (dragoman.was = "{field.aliases[0]}")' if field.aliases else ""
        return f"{requiredness}{written} {field.name}{was}"

    def type(self, record: RecordType, field: Field, type: Type, mark: Marks) -> str:
        match type:
            case RecordType() | EnumType():
                return self.define(type)
            case ArrayType():
                kind = "set" if type.python in (set, frozenset) else "list"
                return f"{kind}<{self.part(record, field, type.items, mark)}>"
            case MapType():
                return f"map<string, {self.part(record, field, type.values, mark)}>"
            case UnionType():
                return self.union(record, field, type)
            case PrimitiveType() if type.primitive in _SCALARS:
                return self.scalar(record, field, _SCALARS[type.primitive], mark)
            case UuidType():
                return "uuid" if type.python is not str or type.names is not None else "string"
            case FixedType():
                return "binary"
            case DecimalType():
                return "string"
            case DateType():
                return "i32"
            case TimestampType() | TimeType():
                return "i64"
            case DurationType() if type.python.__name__ == "timedelta":
                return "i64"
        raise self.refused(record, field, "has a type that Thrift cannot hold")

    def part(self, record: RecordType, field: Field, type: Type, mark: Marks) -> str:
        inner, optional = unwrap(type)
        if optional:
            raise self.refused(record, field, "has parts that may be None", "Wrap them in a record.")
        return self.type(record, field, inner, mark)

    def scalar(self, record: RecordType, field: Field, usual: str, mark: Marks) -> str:
        if mark.kind is None:
            return usual
        if mark.kind not in ("i8", "i16", "i32", "i64") or usual not in ("i32", "i64"):
            raise self.refused(record, field, f"cannot be of the kind {mark.kind!r}")
        return mark.kind

    def union(self, record: RecordType, field: Field, type: UnionType) -> str:
        """A union of its own, named after the record and the field."""
        kinds = [python_type(branch) for branch in branches(type)]
        if len(set(kinds)) < len(kinds) or object in kinds:
            raise self.refused(record, field, "is a union whose branches Python cannot tell apart")
        name = record.names.name + "".join(part.capitalize() for part in field.name.split("_"))
        self.claim(name, type)
        lines = []
        for id, branch in enumerate(branches(type), 1):
            written = self.type(record, field, branch, Marks(None, None))
            lines.append(f"  {id}: {written} as_{written.lower()}")
        self.parts[name] = [f"union {name} {{", *lines, "}"]
        return name

    def enum(self, type: EnumType) -> list[str]:
        values = [member.value for member in type.cls]
        usable = all(isinstance(each, int) and -(2**31) <= each < 2**31 for each in values)
        numbers = values if usable else range(len(values))
        lines = [f"  {name} = {int(number)}" for name, number in zip(type.symbols, numbers, strict=True)]
        return [f"enum {type.names.name} {{", *lines, "}"]

    def refused(self, record: RecordType, field: Field, why: str, next: str = "") -> InvalidSchema:
        return InvalidSchema(
            f"The field {field.name!r} of {record.names.name} {why}.", next=next, field=field.name
        )


def comment(doc: str | None) -> list[str]:
    return [f"// {line}".rstrip() for line in (doc or "").splitlines()]
