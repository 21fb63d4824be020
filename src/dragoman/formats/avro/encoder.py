"""Compiling the way from a value to bytes: straight-line source for one schema and one class.

Each part of the schema gives lines, and pieces: expressions that are bytes, joined once at the end of the
function. A record that occurs more than once gets a function of its own, and so does what nests deeply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from dragoman.formats.avro.binding import bound, parts_of, python_of, refuse_homeless
from dragoman.formats.avro.choosing import Choice, choices_of, choose, tests_for
from dragoman.formats.avro.limits import add_limits, add_stated_limits
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
from dragoman.formats.avro.runtime import SMALL, wide
from dragoman.formats.avro.source import About, Source, described
from dragoman.formats.avro.usage import MAX_INLINE, shared_records
from dragoman.formats.avro.values import value_of_default
from dragoman.schema import types
from dragoman.schema.types import Type

_PARTS = {"millis": (1000, " // 1000"), "micros": (1_000_000, ""), "nanos": (1_000_000_000, " * 1000")}


def compile_encoder(root: Node, type: Type | None, source: Source) -> Callable[[Any], bytes]:
    """The function. What it raises has gone through the source's ``failed``."""
    compiler = _Encoder(source, shared_records(root))
    with source.block("def encode(value):"):
        with source.block("try:"):
            compiler.returns(root, bound(type, root, ""))
        source.add_guard()
    while compiler.waiting:
        compiler.define(*compiler.waiting.popleft())
    return source.compile("encode")


class _Encoder:
    def __init__(self, source: Source, shared: frozenset[int]) -> None:
        self.source = source
        self.shared = shared
        self.functions: dict[tuple[int, int], str] = {}
        self.waiting: deque[tuple[str, Node, Type | None]] = deque()

    def function(self, node: Node, type: Type | None) -> str:
        """The name of the function that writes this, which is defined later if it is new."""
        key = (id(node), id(type))
        if key not in self.functions:
            self.functions[key] = self.source.name("write_")
            self.waiting.append((self.functions[key], node, type))
        return self.functions[key]

    def define(self, name: str, node: Node, type: Type | None) -> None:
        with self.source.block(f"def {name}(value):"):
            self.returns(node, type)

    def returns(self, node: Node, type: Type | None) -> None:
        """The lines of a function that returns the bytes of ``value``."""
        pieces = self._body(node, type, "value", "", 0)
        self.source.now = About("", described(node))
        if len(pieces) == 1 and not pieces[0].startswith("*"):
            self.source.add(f"return {pieces[0]}")
        else:
            self.source.add(f"return b''.join(({''.join(f'{piece}, ' for piece in pieces)}))")

    def pieces(self, node: Node, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        """Add the lines for a value, given as a cheap expression; the pieces it becomes."""
        compound = isinstance(node, Record | Array | Map | Union)
        if not compound or (depth < MAX_INLINE and id(node) not in self.shared):
            return self._body(node, type, value, path, depth)
        self.source.now = About(path, described(node))
        return [self._local(f"{self.function(node, type)}({value})", "p")]

    def _body(self, node: Node, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        self.source.now = About(path, described(node))
        match node:
            case Record():
                return self._record(node, type, value, path, depth)
            case Union():
                return self._union(node, type, value, path, depth)
            case Array():
                return self._array(node, type, value, path, depth)
            case Map():
                return self._map(node, type, value, path, depth)
            case Enum():
                return self._enum(node, type, value)
            case Fixed():
                return self._fixed(node, type, value)
            case Primitive():
                return self._primitive(node, type, value)

    def _local(self, value: str, hint: str = "v") -> str:
        if value.isidentifier():
            return value
        name = self.source.name(hint)
        self.source.add(f"{name} = {value}")
        return name

    def _limits(self, node: Node, type: Type | None, value: str) -> None:
        if type is None:
            add_stated_limits(self.source, node, value)
        else:
            add_limits(self.source, type, value)

    def _record(self, node: Record, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        value = self._local(value, "o")
        parts: dict[str, types.Field] = {}
        if isinstance(type, types.RecordType):
            cls = self.source.bind(type.cls, "class")
            with self.source.block(f"if {value}.__class__ is not {cls}:"):
                self.source.add(f"instance({value}, {cls})")
            parts = parts_of(type, node)
            refuse_homeless(type, node, parts)
        else:
            with self.source.block(f"if {value}.__class__ is not dict:"):
                self.source.add(f"mapping({value})")
            names = self.source.bind(frozenset(field.name for field in node.fields), "names")
            with self.source.block(f"if not {value}.keys() <= {names}:"):
                self.source.add(f"no_field({value}, {names})")
        pieces: list[str] = []
        for field in node.fields:
            inner = f"{path}.{field.name}" if path else field.name
            self.source.now = About(inner, described(field.type))
            part = parts.get(field.name)
            if part is not None:
                of = bound(part.type, field.type, inner)
                pieces += self.pieces(field.type, of, f"{value}.{part.attribute}", inner, depth + 1)
            else:
                entry = self._default(field) if type is not None else self._entry(field, value)
                pieces += self.pieces(field.type, None, entry, inner, depth + 1)
        return pieces

    def _entry(self, field: Field, value: str) -> str:
        """A field of a dict, or its default."""
        if field.default is MISSING:
            return f"{value}[{field.name!r}]"
        return self._local(
            f"{value}[{field.name!r}] if {field.name!r} in {value} else {self._default(field)}"
        )

    def _default(self, field: Field) -> str:
        return self.source.bind(value_of_default(field.type, field.default, None), "default")

    def _union(self, node: Union, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        value = self._local(value)
        result = self.source.name("p")
        choices = choices_of(node, type, path)
        about = self.source.now
        word, test = "if", ""
        for test, (index, branch, part) in self._tests(node, choices, type is None, value):
            self.source.now = about
            with self.source.block(f"{word} {test}:" if test else "else:"):
                null = branch.kind == "null"
                inner = [] if null else self.pieces(branch, part, value, path, depth + 1)
                self.source.now = about
                self._collect(result, [repr(encoded(index)), *inner])
            word = "elif"
        if choices and not test:
            return [result]
        with self.source.block("else:" if choices else "if True:"):
            self.source.add(f"{result} = no_branch({value})")
        return [result]

    def _tests(self, node: Union, choices: list[Choice], plain: bool, value: str) -> list[tuple[str, Choice]]:
        """What tells that a value takes a branch; an empty test is the last, and always true."""
        real = [choice for choice in choices if choice[1].kind != "null"]
        tests = [(f"{value} is None", choice) for choice in choices if choice[1].kind == "null"]
        if len(real) == 1:
            return [*tests, ("" if tests else f"{value} is not None", real[0])]
        if not plain:
            return tests + tests_for(self.source, node, real, value)
        self.source.scope["choose"] = choose
        picked = self.source.name("b")
        self.source.add(f"{picked} = choose({self.source.bind(node, 'union')}, {value})")
        return [(f"{picked} == {choice[0]}", choice) for choice in choices]

    def _collect(self, result: str, pieces: list[str]) -> None:
        if len(pieces) > 3 or any(piece.startswith("*") for piece in pieces):
            self.source.add(f"{result} = b''.join(({', '.join(pieces)}))")
        else:
            self.source.add(f"{result} = {' + '.join(pieces)}")

    def _array(self, node: Array, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        items, item = self.source.name("a"), self.source.name("x")
        self.source.add(f"{items} = {value}")
        with self.source.block(f"if {items}.__class__ is not list:"):
            self.source.add(f"{items} = sequence({items})")
        self._limits(node, type, items)
        inner = type.items if isinstance(type, types.ArrayType) else None

        def entry() -> list[str]:
            return self._inside(node.items, inner, item, path, depth)

        return self._blocks(items, f"for {item} in {items}:", entry)

    def _map(self, node: Map, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        items, item, key = self.source.name("m"), self.source.name("x"), self.source.name("k")
        self.source.add(f"{items} = {value}")
        with self.source.block(f"if {items}.__class__ is not dict:"):
            self.source.add(f"{items} = mapping({items})")
        self._limits(node, type, items)
        inner = type.values if isinstance(type, types.MapType) else None

        def entry() -> list[str]:
            head = self._text(f"{key}.encode()")
            return head + self._inside(node.values, inner, item, path, depth)

        return self._blocks(items, f"for {key}, {item} in {items}.items():", entry)

    def _inside(self, node: Node, type: Type | None, value: str, path: str, depth: int) -> list[str]:
        return self.pieces(node, bound(type, node, path), value, f"{path}[]", depth + 1)

    def _blocks(self, items: str, loop: str, inside: Callable[[], list[str]]) -> list[str]:
        parts, count = self.source.name("ps"), self.source.name("n")
        about = self.source.now
        self.source.add(f"{parts} = []")
        with self.source.block(f"if {items}:"):
            self.source.add(f"{count} = len({items})")
            self.source.add(f"{parts}.append({_length(count)})")
            with self.source.block(loop):
                pieces = inside()
                if len(pieces) == 1 and not pieces[0].startswith("*"):
                    self.source.add(f"{parts}.append({pieces[0]})")
                else:
                    self.source.add(f"{parts} += ({''.join(f'{piece}, ' for piece in pieces)})")
        self.source.now = about
        self.source.add(f"{parts}.append(b'\\0')")
        return [f"*{parts}"]

    def _enum(self, node: Enum, type: Type | None, value: str) -> list[str]:
        table = {symbol: encoded(index) for index, symbol in enumerate(node.symbols)}
        name = self.source.bind(table, "symbols")
        if not isinstance(type, types.EnumType):
            return [self._local(f"{name}[{value}]", "p")]
        value = self._local(value)
        cls = self.source.bind(type.cls, "class")
        with self.source.block(f"if {value}.__class__ is not {cls}:"):
            self.source.add(f"instance({value}, {cls})")
        # A member's own hash is slow; its name's is not.
        return [self._local(f"{name}[{value}._name_]", "p")]

    def _fixed(self, node: Fixed, type: Type | None, value: str) -> list[str]:
        logical = node.logical
        if logical is None or python_of(type) is bytes:
            return [self._local(f"exactly({value}, {node.size})", "p")]
        if type is None:
            value = self._local(value)
            plain = f"exactly({value}, {node.size}) if {value}.__class__ is bytes else "
        else:
            plain = ""
        match logical.name:
            case "decimal":
                self._limits(node, type, value)
                digits = f"{logical.precision}, {logical.scale}, {node.size}"
                return [self._local(f"{plain}decimal_fixed({value}, {digits})", "p")]
            case "uuid":
                return [self._local(f"{plain}uuid_bytes({value})", "p")]
            case _:
                return [self._local(f"{plain}duration_bytes({value})", "p")]

    def _primitive(self, node: Primitive, type: Type | None, value: str) -> list[str]:
        match node.kind:
            case "null":
                value = self._local(value)
                with self.source.block(f"if {value} is not None:"):
                    self.source.add(f"null({value})")
                return []
            case "boolean":
                value = self._local(value)
                choice = f"TRUE if {value} is True else FALSE if {value} is False else boolean({value})"
                return [self._local(choice, "p")]
            case "int" | "long":
                return self._whole(node, type, value)
            case "float" | "double":
                value = self._local(value)
                self._limits(node, type, value)
                pack = self.source.bind(self.source.scope[node.kind.upper()].pack, "pack")
                return [self._local(f"{pack}({value} if {value}.__class__ is float else real({value}))", "p")]
            case "string":
                return self._string(node, type, value)
            case _:
                return self._bytes(node, type, value)

    def _whole(self, node: Primitive, type: Type | None, value: str) -> list[str]:
        value = self._local(value)
        if type is None:
            with self.source.block(f"if {value}.__class__ is bool:"):
                self.source.add(f"no_number({value})")
        self._limits(node, type, value)
        if node.logical is not None and python_of(type) is not int:
            value = self._bare(node.logical.name, value, plain=type is None)
        number = self.source.name("z")
        wide = "wide" if node.kind == "long" else "wide_int"
        self.source.add(f"{number} = ({value} << 1) ^ ({value} >> 63)")
        return [self._local(f"SMALL[{number}] if {number} < 16384 else {wide}({number})", "p")]

    def _bare(self, logical: str, value: str, plain: bool) -> str:
        """The number that stands for a date or time; plain values may be that number already."""
        number = self.source.name("u")
        if plain:
            with self.source.block(f"if {value}.__class__ is int:"):
                self.source.add(f"{number} = {value}")
        with self.source.block("else:") if plain else nullcontext():
            match logical:
                case "date":
                    self.source.add(f"{number} = day({value})")
                case "time-millis":
                    self.source.add(f"{number} = micros_of_day({value}) // 1000")
                case "time-micros":
                    self.source.add(f"{number} = micros_of_day({value})")
                case _:
                    epoch = "LOCAL_EPOCH" if logical.startswith("local") else "EPOCH"
                    past, unit = self.source.name("d"), logical.rpartition("-")[2]
                    scale, rest = _PARTS[unit]
                    # Python refuses to subtract where only one of the two has a time zone.
                    self.source.add(f"{past} = {value} - {epoch}")
                    seconds = f"({past}.days * 86400 + {past}.seconds)"
                    self.source.add(f"{number} = {seconds} * {scale} + {past}.microseconds{rest}")
        return number

    def _string(self, node: Primitive, type: Type | None, value: str) -> list[str]:
        if node.logical is not None and type is None:
            value = self._local(value)
            return self._text(f"{value}.encode() if {value}.__class__ is str else uuid_text({value})")
        if isinstance(type, types.UuidType):
            return self._text(f"{'text_of_uuid' if type.python is str else 'uuid_text'}({value})")
        if getattr(type, "constraints", ()) or (type is None and node.properties):
            value = self._local(value)
            self._limits(node, type, value)
        return self._text(f"{value}.encode()")

    def _bytes(self, node: Primitive, type: Type | None, value: str) -> list[str]:
        value = self._local(value)
        self._limits(node, type, value)
        logical = node.logical
        plain = f"{value} if {value}.__class__ is bytes else octets({value})"
        if logical is None or python_of(type) is bytes:
            return self._text(plain)
        decimal = f"decimal_bytes({value}, {logical.precision}, {logical.scale})"
        return self._text(
            decimal if type is not None else f"{value} if {value}.__class__ is bytes else {decimal}"
        )

    def _text(self, data: str) -> list[str]:
        """The pieces of a text: its length and its bytes."""
        name, count = self.source.name("s"), self.source.name("n")
        self.source.add(f"{name} = {data}")
        self.source.add(f"{count} = len({name})")
        return [f"({_length(count)})", name]


def encoded(number: int) -> bytes:
    """An index, as a branch or a symbol is written."""
    return SMALL[number * 2] if number < 8192 else wide(number * 2)


def _length(count: str) -> str:
    return f"LENGTH[{count}] if {count} < 8192 else wide({count} << 1)"
