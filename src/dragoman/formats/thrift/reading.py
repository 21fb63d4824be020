"""Compiled reading: one function per struct, straight from bytes to a dict or an instance."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from uuid import UUID

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.thrift.binding import default_of, matched, members, unfit
from dragoman.formats.thrift.compiler import Compiler, Shape, indented
from dragoman.formats.thrift.emission import Emission, Lines
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
from dragoman.formats.thrift.wire import MAX_DEPTH
from dragoman.schema import types as neutral
from dragoman.schema.binding import constructor, unwrap
from dragoman.schema.types import Construction, RecordType, UnionType

Read = Callable[[bytes, int, int], tuple[Any, int]]
"""Takes the payload, a place in it and the depth; gives the value and the place behind it."""


def compile_reader(struct: Struct, record: RecordType | None, emission: Emission) -> Read:
    """Raises ``IncompatibleSchema`` where the class does not fit."""
    reader = _Reader(emission)
    return reader.code.compile(reader.function(struct, record))


class _Reader(Compiler):
    parameters = "b, p, d"

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.code.scope["UUID"] = UUID

    def body(self, struct: Struct, shape: Shape) -> Lines:
        wanted = self.wanted(struct, shape)
        lines = [f"if d > {MAX_DEPTH}: too_deep()", "i = 0"]
        lines += (f"f{field.id} = None" for field, _ in wanted)
        loop = self.emission.read_header()
        for at, (field, type) in enumerate(wanted):
            loop.append(f"{'elif' if at else 'if'} i == {field.id}:")
            loop.append(f"    if {self.emission.fits(field.type)}:")
            loop += indented(indented([*self.field(field, type, shape), "continue"]))
        lines += ["while True:", *indented([*loop, self.emission.skip()])]
        return [*lines, *self.made(struct, shape, wanted)]

    def wanted(self, struct: Struct, shape: Shape) -> list[tuple[Field, neutral.Type | None]]:
        """The fields that are read, with their types in the class. The others are passed over."""
        if shape is None:
            return [(field, None) for field in struct.fields]
        if isinstance(shape, UnionType):
            return list(members(struct, shape))
        found = matched(struct, shape)
        return [(found[field.name], field.type) for field in shape.fields if field.name in found]

    def made(self, struct: Struct, shape: Shape, wanted: list[tuple[Field, neutral.Type | None]]) -> Lines:
        lines = [
            f"if f{field.id} is None: missing({field.name!r})"
            for field, _ in wanted
            if field.requiredness is Requiredness.REQUIRED and field.default is None
        ]
        if struct.kind == "union" and not isinstance(shape, RecordType):
            return [*lines, *self.choice(struct, shape, wanted)]
        if shape is None:
            entries = (f"{field.name!r}: {self.plain(field)}" for field in struct.fields)
            return [*lines, f"return {{{', '.join(entries)}}}, p"]
        if isinstance(shape, UnionType):
            raise IncompatibleSchema(f"{struct.name} is a struct, not a union.")
        return [*lines, *self.instance(struct, shape)]

    def choice(self, struct: Struct, shape: Shape, wanted: list[tuple[Field, neutral.Type | None]]) -> Lines:
        found = ", ".join(f"({field.name!r}, f{field.id})" for field, _ in wanted)
        lines = [f"r = [x for x in ({found}{',' if found else ''}) if x[1] is not None]"]
        lines.append(f"if len(r) != 1: no_choice({struct.name!r}, len(r))")
        return [*lines, "return (dict(r), p)" if shape is None else "return (r[0][1], p)"]

    def plain(self, field: Field) -> str:
        if field.default is None:
            return f"f{field.id}"
        value = field.initial
        if isinstance(field.type, SetType) and hashable(field.type.item):
            value = set(value)
        bound = self.code.bind(value, "initial")
        if isinstance(value, list | dict | set):
            bound = f"{self.code.bind(copy.deepcopy, 'copy')}({bound})"
        return f"f{field.id} if f{field.id} is not None else {bound}"

    def instance(self, struct: Struct, record: RecordType) -> Lines:
        found = matched(struct, record)
        values = [self.attribute(struct, record, field, found.get(field.name)) for field in record.fields]
        pairs = list(zip(record.fields, values, strict=True))
        cls = self.code.bind(record.cls, "class")
        if record.construction is Construction.ASSIGN:
            new = self.code.bind(record.cls.__new__, "new")
            return [
                f"o = {new}({cls})",
                *(f"o.{field.attribute} = {value}" for field, value in pairs),
                "return o, p",
            ]
        make = self.code.bind(constructor(record), "make")
        if record.construction is Construction.POSITIONAL:
            return [f"return {make}({', '.join(values)}), p"]
        named = ", ".join(f"{field.argument!r}: {value}" for field, value in pairs)
        return [f"return {make}(**{{{named}}}), p"]

    def attribute(self, struct: Struct, record: RecordType, field: neutral.Field, found: Field | None) -> str:
        """An expression for one field of an instance, its default where the payload has none."""
        make = default_of(field)
        optional = unwrap(field.type)[1]
        if found is None:
            if make is None:
                raise unfit(record, field.name, f"has no counterpart in {struct.name}, and no default")
            return f"{self.code.bind(make, 'default')}()"
        if make is not None:
            absent = f"{self.code.bind(make, 'default')}()"
        else:
            absent = "None" if optional else f"missing({found.name!r})"
        return f"f{found.id} if f{found.id} is not None else {absent}"

    # Values.

    def field(self, field: Field, type: neutral.Type | None, shape: Shape) -> Lines:
        wanted = unwrap(type)[0] if type is not None else None
        target = f"f{field.id}"
        owner = shape if isinstance(shape, RecordType) else None
        if field.type is Base.BOOL:
            lines = self.emission.read_bool_field(target)
            return [*lines, *self.converted(field.type, wanted, target, field.name, owner)]
        return self.value(field.type, wanted, target, field.name, owner)

    def value(
        self, type: Type, wanted: neutral.Type | None, target: str, name: str, owner: RecordType | None
    ) -> Lines:
        match type:
            case Base():
                lines = self.emission.read_base(type, target)
                return [*lines, *self.converted(type, wanted, target, name, owner)]
            case EnumType():
                lines = self.emission.read_base(Base.I32, target)
                if wanted is None:
                    names = self.code.bind(enum_names(type.enum), "names")
                    return [*lines, f"{target} = {names}({target}, {target})"]
                return [*lines, *self.converted(type, wanted, target, name, owner)]
            case StructType():
                shape = self.shape(type.struct, wanted, name, owner)
                return [f"{target}, p = {self.function(type.struct, shape)}(b, p, d + 1)"]
            case MapType():
                return self.map(type, wanted, target, name, owner)
            case ListType() | SetType():
                return self.parts(type, wanted, target, name, owner)

    def converted(
        self, type: Type, wanted: neutral.Type | None, target: str, name: str, owner: RecordType | None
    ) -> Lines:
        if wanted is None:
            return []
        how = self.conversion(type, wanted, name, owner)
        lines = [f"{target} = {self.code.bind(how.read, 'convert')}({target})"] if how.read else []
        return [*lines, *self.checked(wanted, target, name)]

    def parts(
        self,
        type: ListType | SetType,
        wanted: neutral.Type | None,
        target: str,
        name: str,
        owner: RecordType | None,
    ) -> Lines:
        items = self.items(wanted, name, owner)
        size, codes, made, each = self.locals("zcay")
        inner = self.value(type.item, items, each, name, owner)
        lines = self.emission.read_parts(size, codes, (type.item,), name)
        lines += [f"{made} = []", f"for _ in range({size}):", *indented([*inner, f"{made}.append({each})"])]
        kind: Any = set if isinstance(type, SetType) and hashable(type.item) else list
        if isinstance(wanted, neutral.ArrayType):
            kind = wanted.python
        lines.append(f"{target} = {made if kind is list else f'{kind.__name__}({made})'}")
        return [*lines, *self.checked(wanted, target, name)]

    def map(
        self, type: MapType, wanted: neutral.Type | None, target: str, name: str, owner: RecordType | None
    ) -> Lines:
        values = self.values(type, wanted, name, owner)
        if not hashable(type.key):
            raise unfit(owner, name, "has keys that no Python dict can have")
        size, codes, made, key, each = self.locals("zcaky")
        lines = self.emission.read_parts(size, codes, (type.key, type.value), name)
        inner = self.value(type.key, None, key, name, owner)
        inner += self.value(type.value, values, each, name, owner)
        lines += [
            f"{made} = {{}}",
            f"for _ in range({size}):",
            *indented([*inner, f"{made}[{key}] = {each}"]),
        ]
        return [*lines, f"{target} = {made}", *self.checked(wanted, target, name)]


def hashable(type: Type) -> bool:
    return isinstance(type, Base | EnumType)


def enum_names(enum: Enum) -> Callable[[int, int], str | int]:
    """From a number to the first name it has; a number without a name stays one."""
    names: dict[int, str] = {}
    for each in enum.members:
        names.setdefault(each.number, each.name)
    found: Any = names.get
    made: Callable[[int, int], str | int] = found
    return made
