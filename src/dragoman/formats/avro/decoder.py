"""Compiling the way from bytes to a value: the writer's schema is resolved to the reader's and to the class.

The generated functions take the payload and a place in it, ``i``. They trust that a place beyond the end is
noticed: by the next byte that is looked at, or at the end, where the place must be the payload's length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro.binding import bound, parts_of
from dragoman.formats.avro.compatibility import Checker, matched_fields
from dragoman.formats.avro.limits import add_limits
from dragoman.formats.avro.nodes import (
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
from dragoman.formats.avro.scalars import bare, meaning
from dragoman.formats.avro.skipping import Skipper
from dragoman.formats.avro.source import About, Source, described
from dragoman.formats.avro.usage import MAX_INLINE, Sizes, shared_records
from dragoman.formats.avro.values import as_source, class_default, value_of_default
from dragoman.schema import types
from dragoman.schema.types import Construction, Type


def compile_decoder(
    writer: Node, reader: Node, type: Type | None, source: Source
) -> tuple[Callable[[bytes], Any], bool]:
    """The function, and whether the payload must be ``Metered``. Its errors go through ``failed``."""
    compiler = _Decoder(source, writer)
    with source.block("def decode(data):"):
        with source.block("try:"):
            source.add("i = 0")
            compiler.body(writer, reader, type, "value", "", 0)
            with source.block("if i == len(data):"):
                source.add("return value")
        source.add_guard()
        source.add("raise wrong_end(i, len(data))")
    while compiler.waiting:
        compiler.define(*compiler.waiting.popleft())
    compiler.skipper.define_waiting()
    return source.compile("decode"), compiler.skipper.metered


class _Decoder:
    def __init__(self, source: Source, writer: Node) -> None:
        self.source = source
        self.source.scope["new"] = object.__new__
        self.checker = Checker()
        self.sizes = Sizes()
        self.shared = shared_records(writer)
        self.skipper = Skipper(self.source, self.shared, self.sizes)
        self.functions: dict[tuple[int, int, int], str] = {}
        self.waiting: deque[tuple[str, Node, Node, Type | None]] = deque()

    def function(self, writer: Node, reader: Node, type: Type | None) -> str:
        key = (id(writer), id(reader), id(type))
        if key not in self.functions:
            self.functions[key] = self.source.name("read_")
            self.waiting.append((self.functions[key], writer, reader, type))
        return self.functions[key]

    def define(self, name: str, writer: Node, reader: Node, type: Type | None) -> None:
        self.source.now = About("", described(writer))
        with self.source.block(f"def {name}(data, i):"):
            value = self.source.name("v")
            self.body(writer, reader, type, value, "", 0)
            self.source.add(f"return {value}, i")

    def read(self, writer: Node, reader: Node, type: Type | None, target: str, path: str, depth: int) -> None:
        """Add the lines that put the next value into the target."""
        compound = isinstance(writer, Record | Array | Map | Union)
        if not compound or (depth < MAX_INLINE and id(writer) not in self.shared):
            self.body(writer, reader, type, target, path, depth)
            return
        self.source.now = About(path, described(writer))
        self.source.add(f"{target}, i = {self.function(writer, reader, type)}(data, i)")

    def body(self, writer: Node, reader: Node, type: Type | None, target: str, path: str, depth: int) -> None:
        self.source.now = About(path, described(writer))
        if isinstance(writer, Union):
            self._union(writer, reader, type, target, path, depth)
            return
        if isinstance(reader, Union):
            reader = self._branch(reader, writer, path)
        type = bound(type, reader, path)
        match writer, reader:
            case Record(), Record():
                self._record(writer, reader, type, target, path, depth)
            case Array(), Array():
                self._array(writer, reader, type, target, path, depth)
            case Map(), Map():
                self._map(writer, reader, type, target, path, depth)
            case Enum(), Enum():
                self._enum(writer, reader, type, target)
            case ((Primitive() | Fixed()), (Primitive() | Fixed())):
                self._scalar(writer, reader, type, target)
            case _:
                raise _mismatch(writer, reader, path)

    def _branch(self, reader: Union, writer: Node, path: str) -> Node:
        branch = self.checker.branch_for(reader, writer)
        if branch is None:
            raise _mismatch(writer, reader, path)
        return branch

    def _union(
        self, writer: Union, reader: Node, type: Type | None, target: str, path: str, depth: int
    ) -> None:
        index = self.source.name("n")
        self.source.add(f"{index} = data[i]; i += 1")
        if len(writer.branches) > 63:
            with self.source.block(f"if {index} > 127:"):
                self.source.add(f"{index}, i = more(data, i, {index})")
        about = self.source.now
        for number, branch in enumerate(writer.branches):
            self.source.now = about
            with self.source.block(f"{'elif' if number else 'if'} {index} == {number * 2}:"):
                chosen = self._branch(reader, branch, path) if isinstance(reader, Union) else reader
                try:
                    part = bound(type, chosen, path)
                except IncompatibleSchema:
                    what = f"{described(branch)}, for which the class has no place"
                    self.source.add(f"raise Unfit({what!r})")
                    continue
                self.read(branch, chosen, part, target, path, depth + 1)
        self.source.now = about
        with self.source.block("else:"):
            self.source.add("raise Unfit('a branch that the union does not have')")

    def _record(
        self, writer: Record, reader: Record, type: Type | None, target: str, path: str, depth: int
    ) -> None:
        matched = matched_fields(reader, writer)
        taken = {matched[field.name].name: field for field in reader.fields if field.name in matched}
        parts = parts_of(type, reader) if isinstance(type, types.RecordType) else {}
        assign = isinstance(type, types.RecordType) and type.construction is Construction.ASSIGN
        made = self.source.name("o")
        values: dict[str, str] = {}
        if assign and isinstance(type, types.RecordType):
            self.source.add(f"{made} = new({self.source.bind(type.cls, 'class')})")

        def place(field: Field) -> str:
            attribute = parts[field.name].attribute if field.name in parts else ""
            values[field.name] = f"{made}.{attribute}" if assign else self.source.name("v")
            return values[field.name]

        for source in writer.fields:
            inner = f"{path}.{source.name}" if path else source.name
            field = taken.get(source.name)
            if field is None or (type is not None and field.name not in parts):
                self.skipper.skip(source.type, inner, depth + 1)
            else:
                part = parts[field.name].type if field.name in parts else None
                self.read(source.type, field.type, part, place(field), inner, depth + 1)
        for field in reader.fields:
            if field.name not in matched and (type is None or field.name in parts):
                part = parts[field.name].type if field.name in parts else None
                default = value_of_default(field.type, field.default, part)
                self.source.add(f"{place(field)} = {as_source(self.source, default)}")
        self.source.now = About(path, described(reader))
        if isinstance(type, types.RecordType):
            self._construct(type, parts, values, made)
            self.source.add(f"{target} = {made}")
        else:
            pairs = ", ".join(f"{field.name!r}: {values[field.name]}" for field in reader.fields)
            self.source.add(f"{target} = {{{pairs}}}")

    def _construct(
        self, type: types.RecordType, parts: dict[str, types.Field], values: dict[str, str], made: str
    ) -> None:
        by_part = {id(part): name for name, part in parts.items()}
        assign = type.construction is Construction.ASSIGN
        arguments: list[str] = []
        names: list[str] = []
        for part in type.fields:
            if id(part) in by_part:
                value = values[by_part[id(part)]]
            else:
                value = as_source(self.source, class_default(part, type))
                if assign:
                    self.source.add(f"{made}.{part.attribute} = {value}")
            arguments.append(value)
            names.append(part.argument)
        if assign:
            return
        if type.construction is Construction.KEYWORD:
            pairs = ", ".join(f"{name!r}: {value}" for name, value in zip(names, arguments, strict=True))
            call = f"**{{{pairs}}}"
        else:
            call = ", ".join(arguments)
        cls = self.source.bind(type.cls, "class")
        with self.source.block("try:"):
            self.source.add(f"{made} = {cls}({call})")
        with self.source.block("except Exception as error:"):
            self.source.add(f"raise Refused(error, {type.cls.__qualname__!r}) from error")

    def _array(
        self, writer: Array, reader: Array, type: Type | None, target: str, path: str, depth: int
    ) -> None:
        items, item, add = self.source.name("a"), self.source.name("x"), self.source.name("f")
        part = type.items if isinstance(type, types.ArrayType) else None
        about = self.source.now
        self.source.add(f"{items} = []; {add} = {items}.append")
        with self.skipper.blocks(self.sizes.least(writer.items)):
            self.read(writer.items, reader.items, part, item, f"{path}[]", depth + 1)
            self.source.add(f"{add}({item})")
        self.source.now = about
        add_limits(self.source, type, items)
        python = type.python if isinstance(type, types.ArrayType) else list
        made = items if python is list else f"{python.__name__}({items})"
        self.source.add(f"{target} = {made}")

    def _map(self, writer: Map, reader: Map, type: Type | None, target: str, path: str, depth: int) -> None:
        items, key, item = self.source.name("m"), self.source.name("k"), self.source.name("x")
        part = type.values if isinstance(type, types.MapType) else None
        about = self.source.now
        self.source.add(f"{items} = {{}}")
        with self.skipper.blocks(1 + self.sizes.least(writer.values)):
            self.source.add(f"{key} = {bare(self.source, 'string')}.decode(); i = j")
            self.read(writer.values, reader.values, part, item, f"{path}[]", depth + 1)
            self.source.add(f"{items}[{key}] = {item}")
        self.source.now = about
        add_limits(self.source, type, items)
        self.source.add(f"{target} = {items}")

    def _enum(self, writer: Enum, reader: Enum, type: Type | None, target: str) -> None:
        known = set(reader.symbols)
        table: dict[int, Any] = {}
        for index, symbol in enumerate(writer.symbols):
            found = symbol if symbol in known else reader.default
            if isinstance(type, types.EnumType):
                member = type.cls.__members__.get(found or "")
                if member is None and type.fallback is not None:
                    member = type.cls[type.fallback]
                if member is not None:
                    table[index * 2] = member
            elif found is not None:
                table[index * 2] = found
        index_name = self.source.name("n")
        self.source.add(f"{index_name} = data[i]; i += 1")
        if len(writer.symbols) > 63:
            with self.source.block(f"if {index_name} > 127:"):
                self.source.add(f"{index_name}, i = more(data, i, {index_name})")
        self.source.add(f"{target} = {self.source.bind(table, 'symbols')}[{index_name}]")

    def _scalar(
        self, writer: Primitive | Fixed, reader: Primitive | Fixed, type: Type | None, target: str
    ) -> None:
        value = bare(self.source, writer.kind, writer.size if isinstance(writer, Fixed) else 0)
        ends = writer.kind in ("string", "bytes", "fixed")
        value = meaning(self.source, writer, reader, type, value)
        limited = bool(getattr(type, "constraints", ()))
        name = self.source.name("v") if limited else target
        self.source.add(f"{name} = {value}{'; i = j' if ends else ''}")
        if writer.kind in ("float", "double"):
            self.source.add(f"i += {4 if writer.kind == 'float' else 8}")
        if limited:
            add_limits(self.source, type, name)
            self.source.add(f"{target} = {name}")


def _mismatch(writer: Node, reader: Node, path: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"{path or 'The message'}: {described(writer)} cannot be read as {described(reader)}.",
        field=path or None,
    )
