"""Compiled writing: one function per struct, straight from a dict or an instance to bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.formats.thrift.binding import matched, members, refuse_homeless
from dragoman.formats.thrift.compiler import Compiler, Shape, indented
from dragoman.formats.thrift.emission import Emission, Lines, compact_header
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
from dragoman.schema import types as neutral
from dragoman.schema.binding import python_type, unwrap
from dragoman.schema.types import RecordType, UnionType

Write = Callable[[bytearray, Any], None]


def compile_writer(struct: Struct, record: RecordType | None, emission: Emission) -> Write:
    """Raises ``IncompatibleSchema`` where the class does not fit."""
    writer = _Writer(emission)
    return writer.code.compile(writer.function(struct, record))


class _Writer(Compiler):
    parameters = "out, v"

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.code.scope.update({"known": known, "one_of": one_of, "no_branch": no_branch})

    def body(self, struct: Struct, shape: Shape) -> Lines:
        return self.union(struct, shape) if isinstance(shape, UnionType) else self.struct(struct, shape)

    def struct(self, struct: Struct, record: RecordType | None) -> Lines:
        fields = sorted(struct.fields, key=lambda field: field.id)
        lines = ["l = 0"]
        if record is None:
            names = self.code.bind(frozenset(field.name for field in fields), "names")
            lines.append(f"known(v, {names}, {struct.name!r})")
        if struct.kind == "union" and record is None:
            lines.append(f"one_of(v, {struct.name!r})")
        parts: dict[int, neutral.Field] = {}
        if record is not None:
            refuse_homeless(struct, record)
            found = matched(struct, record)
            parts = {found[part.name].id: part for part in record.fields}
        before = [0]
        for field in fields:
            part = parts.get(field.id)
            if record is not None and part is None:
                lines += self.absent(field, before)
            else:
                lines += self.field(field, part, record, before)
            before.append(field.id)
        return [*lines, "out.append(0)"]

    def field(
        self, field: Field, part: neutral.Field | None, record: RecordType | None, before: list[int]
    ) -> Lines:
        """``part`` is the record's field, which is missing for a dict."""
        lines = [f"x = v.get({field.name!r})" if part is None else f"x = v.{part.attribute}"]
        wanted, optional = (None, True) if part is None else unwrap(part.type)
        if not optional or (field.requiredness is Requiredness.REQUIRED and field.default is None):
            return [
                *lines,
                f"if x is None: unwritten({field.name!r})",
                *self.written(field, wanted, record, before),
            ]
        if field.requiredness is Requiredness.REQUIRED and record is None:
            lines.append(f"if x is None: x = {self.code.bind(field.initial, 'initial')}")
        return [*lines, "if x is not None:", *indented(self.written(field, wanted, record, before))]

    def absent(self, field: Field, before: list[int]) -> Lines:
        """A field that the class has not: if it is required, only its default can be written."""
        if field.requiredness is not Requiredness.REQUIRED:
            return []
        if field.default is None:
            return [f"unwritten({field.name!r})"]
        return [f"x = {self.code.bind(field.initial, 'initial')}", *self.written(field, None, None, before)]

    def written(
        self, field: Field, wanted: neutral.Type | None, owner: RecordType | None, before: list[int]
    ) -> Lines:
        if field.type is Base.BOOL:
            true, false = self.headers(field, before, 1), self.headers(field, before, 2)
            checks = self.checked(wanted, "x", field.name)
            return [*checks, *self.emission.write_bool_field("x", (true, false)), f"l = {field.id}"]
        head = [f"out += {self.headers(field, before, None)}[l]", f"l = {field.id}"]
        return [*head, *self.value(field.type, wanted, "x", field.name, owner)]

    def headers(self, field: Field, before: list[int], code: int | None) -> str:
        """A table from the id of the field before to the bytes that announce this one."""
        table = {last: self.emission.header(field.type, field.id, last) for last in before}
        if code == 2:
            table = {last: compact_header(2, field.id, last) for last in before}
        return self.code.bind(table, "head")

    def union(self, struct: Struct, union: UnionType) -> Lines:
        lines: Lines = ["l = 0"]
        for at, (field, type) in enumerate(members(struct, union)):
            cls = self.code.bind(python_type(type), "type")
            lines += [f"{'elif' if at else 'if'} type(v) is {cls}:", "    x = v"]
            lines += indented(self.written(field, type, None, [0]))
        return [*lines, f"else: no_branch(v, {struct.name!r})", "out.append(0)"]

    # Values.

    def value(
        self, type: Type, wanted: neutral.Type | None, value: str, name: str, owner: RecordType | None
    ) -> Lines:
        match type:
            case Base():
                lines, value = self.converted(type, wanted, value, name, owner)
                return [*lines, *self.emission.write_base(type, value, name)]
            case EnumType() if wanted is None:
                number = f"{self.code.bind(enum_number(type.enum), 'number')}({value})"
                return self.emission.write_base(Base.I32, number, name)
            case EnumType():
                lines, value = self.converted(type, wanted, value, name, owner)
                return [*lines, *self.emission.write_base(Base.I32, value, name)]
            case StructType():
                shape = self.shape(type.struct, wanted, name, owner)
                return [f"{self.function(type.struct, shape)}(out, {value})"]
            case MapType():
                return self.map(type, wanted, value, name, owner)
            case ListType() | SetType():
                return self.parts(type, wanted, value, name, owner)

    def converted(
        self, type: Type, wanted: neutral.Type | None, value: str, name: str, owner: RecordType | None
    ) -> tuple[Lines, str]:
        if wanted is None:
            return [], value
        how = self.conversion(type, wanted, name, owner)
        lines = self.checked(wanted, value, name)
        return lines, f"{self.code.bind(how.write, 'convert')}({value})" if how.write else value

    def parts(
        self,
        type: ListType | SetType,
        wanted: neutral.Type | None,
        value: str,
        name: str,
        owner: RecordType | None,
    ) -> Lines:
        items = self.items(wanted, name, owner)
        parts, size, each = self.locals("azy")
        source = "ordered" if isinstance(type, SetType) else "listed"
        lines = [*self.checked(wanted, value, name), f"{parts} = {source}({value})", f"{size} = len({parts})"]
        lines += self.emission.write_parts(size, (type.item,))
        inner = self.value(type.item, items, each, name, owner)
        return [*lines, f"for {each} in {parts}:", *indented(inner)]

    def map(
        self, type: MapType, wanted: neutral.Type | None, value: str, name: str, owner: RecordType | None
    ) -> Lines:
        values = self.values(type, wanted, name, owner)
        entries, size, key, each = self.locals("azky")
        lines = [*self.checked(wanted, value, name), f"{entries} = {value}", f"{size} = len({entries})"]
        lines += self.emission.write_parts(size, (type.key, type.value))
        inner = self.value(type.key, None, key, name, owner)
        inner += self.value(type.value, values, each, name, owner)
        return [*lines, f"for {key}, {each} in {entries}.items():", *indented(inner)]


def enum_number(enum: Enum) -> Callable[[Any], int]:
    numbers = {each.name: each.number for each in reversed(enum.members)}

    def number(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        try:
            return numbers[value]
        except (KeyError, TypeError):
            raise ValueError(f"{enum.name} has no such member.") from None

    return number


def known(value: Any, names: frozenset[str], struct: str) -> None:
    """Refuse what the struct does not have."""
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} is not a dict with the fields of {struct}.")
    if not value.keys() <= names:
        strange = ", ".join(sorted(map(repr, value.keys() - names)))
        raise ValueError(f"{struct} has no {strange}.")


def one_of(value: dict[str, Any], struct: str) -> None:
    given = [name for name, each in value.items() if each is not None]
    if len(given) != 1:
        raise ValueError(f"The union {struct} needs one field, not {len(given)}.")


def no_branch(value: Any, struct: str) -> None:
    raise TypeError(f"{type(value).__name__} is none of the types of the union {struct}.")
