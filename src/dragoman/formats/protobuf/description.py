"""The .proto text of a record class."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.lexer import quote
from dragoman.formats.protobuf.markers import Marks, marks_of
from dragoman.formats.protobuf.parser import SCALARS
from dragoman.formats.protobuf.schema import ProtobufSchema
from dragoman.schema.binding import branches, python_type, unwrap
from dragoman.schema.markers import Primitive
from dragoman.schema.records import describe
from dragoman.schema.types import (
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    Field,
    FixedType,
    MapType,
    Names,
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
    Primitive.INT: "int32",
    Primitive.LONG: "int64",
    Primitive.FLOAT: "float",
    Primitive.DOUBLE: "double",
    Primitive.BYTES: "bytes",
    Primitive.STRING: "string",
}
_IMPORTS = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.protobuf.Duration": "google/protobuf/duration.proto",
    "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto",
    "google.type.DateTime": "google/type/datetime.proto",
    "confluent.type.Decimal": "confluent/type/decimal.proto",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = range(19000, 20000)


def schema_text(cls: type) -> str:
    """A proto3 file whose first message is the class. Raises ``InvalidSchema``."""
    text = _File(describe(cls)).text()
    ProtobufSchema.from_text(text, {})
    return text


class _File:
    """Named types are nested where their namespace is a message, and stand in the file otherwise."""

    def __init__(self, root: RecordType) -> None:
        self.root = root
        self.package = root.names.namespace
        self.imports: set[str] = set()
        self.types: dict[str, RecordType | EnumType] = {}
        self.paths: dict[int, str] = {}
        self.taken: dict[str, set[str]] = {}

    def text(self) -> str:
        self.collect(self.root)
        bodies = [self.define(name) for name in self.types if "." not in name]
        parts = ['syntax = "proto3";']
        parts += [f"package {self.package};"] if self.package else []
        parts += (
            ["\n".join(f"import {quote(each.encode())};" for each in sorted(self.imports))]
            if self.imports
            else []
        )
        return "\n\n".join([*parts, *("\n".join(body) for body in bodies)]) + "\n"

    def collect(self, root: RecordType) -> None:
        """Give every named type its place, in the order in which they are met."""
        met: list[RecordType | EnumType] = []
        waiting: list[Type] = [root]
        while waiting:
            each = waiting.pop(0)
            if isinstance(each, RecordType | EnumType):
                if not any(each is other for other in met):
                    met.append(each)
                    waiting += (field.type for field in each.fields) if isinstance(each, RecordType) else ()
            elif isinstance(each, ArrayType):
                waiting.append(each.items)
            elif isinstance(each, MapType):
                waiting.append(each.values)
            elif isinstance(each, UnionType):
                waiting += each.branches
        outer = {each.names.full for each in met if isinstance(each, RecordType)}
        for each in met:
            self.place(each, outer)

    def place(self, type: RecordType | EnumType, outer: set[str]) -> None:
        names = type.names
        path = names.name
        if names.namespace in outer:
            path = names.full.removeprefix(self.package + "." if self.package else "")
        if path in self.types:
            raise InvalidSchema(
                f"Two types are called {path}.", next="Rename one of them, or give it another namespace."
            )
        self.types[path] = type
        self.paths[id(type)] = path

    # Definitions.

    def define(self, path: str) -> list[str]:
        type = self.types[path]
        body = self.enum(path, type) if isinstance(type, EnumType) else self.message(path, type)
        word = "enum" if isinstance(type, EnumType) else "message"
        return [
            *comment(type.names.doc),
            f"{word} {checked(type.names)} {{",
            *("  " + each for each in body),
            "}",
        ]

    def message(self, path: str, record: RecordType) -> list[str]:
        lines: list[str] = []
        for inner in self.types:
            if inner.rpartition(".")[0] == path:
                lines += self.define(inner)
        marks = marks_of(record.cls)
        numbers = _Numbers(mark.tag for mark in marks)
        grouped: dict[str, list[str]] = {}
        for field, mark in zip(record.fields, marks, strict=True):
            written = self.field(record, field, mark, numbers)
            if mark.oneof is None:
                lines += written
                continue
            if mark.oneof not in grouped:
                grouped[mark.oneof] = []
                lines.append(mark.oneof)
            grouped[mark.oneof] += written
        return [
            each for line in lines for each in (oneof(line, grouped[line]) if line in grouped else [line])
        ]

    def field(self, record: RecordType, field: Field, mark: Marks, numbers: _Numbers) -> list[str]:
        type, optional = unwrap(field.type)
        lines = comment(field.doc)
        if _NAME.fullmatch(field.name) is None:
            raise self.refused(record, field, "has a name that Protobuf does not allow")
        if isinstance(type, UnionType):
            return self.union(record, field, type, numbers)
        label, written = self.type(record, field, type, mark)
        if optional and label:
            raise self.refused(
                record, field, "may be None, but Protobuf cannot tell that from being empty", "Make it empty."
            )
        if mark.oneof is not None and not optional:
            raise self.refused(record, field, "is in a oneof, but is not optional", "Allow None.")
        if optional and mark.oneof is None and not self.is_message(type):
            label = "optional "
        number = mark.tag if mark.tag is not None else numbers.next()
        return [*lines, f"{'' if label == 'map' else label}{written} {field.name} = {number};"]

    def type(self, record: RecordType, field: Field, type: Type, mark: Marks) -> tuple[str, str]:
        """The label, which is ``map`` for a map, and the type."""
        if isinstance(type, ArrayType):
            return "repeated ", self.single(record, field, type.items, mark)
        if isinstance(type, MapType):
            return "map", f"map<string, {self.single(record, field, type.values, mark)}>"
        return "", self.single(record, field, type, mark)

    def single(self, record: RecordType, field: Field, type: Type, mark: Marks) -> str:
        match type:
            case RecordType() | EnumType():
                return self.paths[id(type)]
            case PrimitiveType() if mark.kind is not None:
                if mark.kind not in SCALARS:
                    raise self.refused(record, field, f"has the unknown kind {mark.kind!r}")
                return mark.kind
            case PrimitiveType() if type.primitive in _SCALARS:
                return _SCALARS[type.primitive]
            case UuidType():
                return "string" if type.names is None else "bytes"
            case FixedType():
                return "bytes"
            case TimestampType() if type.local and type.python is not int:
                return self.imported("google.type.DateTime")
            case TimestampType():
                return self.imported("google.protobuf.Timestamp")
            case DateType():
                return self.imported("google.type.Date")
            case TimeType():
                return self.imported("google.type.TimeOfDay")
            case DecimalType():
                return self.imported("confluent.type.Decimal")
            case DurationType() if type.python.__name__ == "timedelta":
                return self.imported("google.protobuf.Duration")
        raise self.refused(record, field, "has a type that Protobuf cannot hold here", "Wrap it in a record.")

    def imported(self, name: str) -> str:
        self.imports.add(_IMPORTS[name])
        hidden = name.partition(".")[0] in {*self.package.split("."), *self.types}
        return f".{name}" if hidden else name

    def is_message(self, type: Type) -> bool:
        return isinstance(type, RecordType | TimestampType | DateType | TimeType | DecimalType | DurationType)

    def union(self, record: RecordType, field: Field, type: UnionType, numbers: _Numbers) -> list[str]:
        """A oneof with the field's name, and a member for each branch."""
        kinds = [python_type(branch) for branch in branches(type)]
        if len(set(kinds)) < len(kinds) or object in kinds:
            raise self.refused(record, field, "is a union whose branches Python cannot tell apart")
        members = []
        for branch in branches(type):
            written = self.single(record, field, branch, Marks(None, None, None))
            suffix = written.rpartition(".")[2].lower()
            members.append(f"{written} {field.name}_{suffix} = {numbers.next()};")
        return [*comment(field.doc), *oneof(field.name, members)]

    def enum(self, path: str, type: EnumType) -> list[str]:
        scope = path.rpartition(".")[0]
        taken = self.taken.setdefault(scope, set())
        names = list(type.symbols)
        if taken & set(names):
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", type.names.name).upper()
            names = [f"{prefix}_{name}" for name in names]
        taken |= set(names)
        return [f"{name} = {number};" for number, name in _numbered(type, names)]

    def refused(self, record: RecordType, field: Field, why: str, next: str = "") -> InvalidSchema:
        return InvalidSchema(
            f"The field {field.name!r} of {record.names.name} {why}.", next=next, field=field.name
        )


class _Numbers:
    """Hands out the numbers that no marker takes, from 1 on."""

    def __init__(self, taken: Iterator[int | None]) -> None:
        self.taken = {number for number in taken if number is not None}
        self.last = 0

    def next(self) -> int:
        self.last += 1
        while self.last in self.taken or self.last in _RESERVED:
            self.last += 1
        return self.last


def _numbered(type: EnumType, names: list[str]) -> list[tuple[int, str]]:
    """Members with int values keep them if one is 0; others are numbered in order. 0 comes first."""
    values = [member.value for member in type.cls]
    usable = all(
        isinstance(each, int) and not isinstance(each, bool) and -(2**31) <= each < 2**31 for each in values
    )
    if not usable or 0 not in values:
        return list(enumerate(names))
    pairs = list(zip(values, names, strict=True))
    return sorted(pairs, key=lambda pair: pair[0] != 0)


def checked(names: Names) -> str:
    if _NAME.fullmatch(names.name) is None:
        raise InvalidSchema(
            f"{names.name!r} is not a name in Protobuf.", next="Give it another with @record(name=)."
        )
    return names.name


def oneof(name: str, members: list[str]) -> list[str]:
    return [f"oneof {name} {{", *("  " + each for each in members), "}"]


def comment(doc: str | None) -> list[str]:
    return [f"// {line}".rstrip() for line in (doc or "").splitlines()]
