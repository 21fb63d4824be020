"""The lines of a decoder that pass over what the reader does not want, and the loop over blocks of items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Union
from dragoman.formats.avro.source import About, Source, described
from dragoman.formats.avro.usage import MAX_INLINE, Sizes


class Skipper:
    def __init__(self, source: Source, shared: frozenset[int], sizes: Sizes) -> None:
        self.source = source
        self.shared = shared
        self.sizes = sizes
        self.metered = False
        self.functions: dict[int, str] = {}
        self.waiting: deque[tuple[str, Node]] = deque()

    def define_waiting(self) -> None:
        while self.waiting:
            name, node = self.waiting.popleft()
            with self.source.block(f"def {name}(data, i):"):
                self._body(node, "", 0)
                self.source.add("return i")

    def skip(self, node: Node, path: str, depth: int) -> None:
        compound = isinstance(node, Record | Array | Map | Union)
        if not compound or (depth < MAX_INLINE and id(node) not in self.shared):
            self._body(node, path, depth)
            return
        if id(node) not in self.functions:
            self.functions[id(node)] = self.source.name("skip_")
            self.waiting.append((self.functions[id(node)], node))
        self.source.now = About(path, described(node))
        self.source.add(f"i = {self.functions[id(node)]}(data, i)")

    def _body(self, node: Node, path: str, depth: int) -> None:
        self.source.now = About(path, described(node))
        match node:
            case Record():
                for field in node.fields:
                    self.skip(field.type, f"{path}.{field.name}" if path else field.name, depth + 1)
            case Union():
                self._union(node, path, depth)
            case Array():
                self._items(node.items, False, path, depth)
            case Map():
                self._items(node.values, True, path, depth)
            case Fixed():
                self.source.add(f"i += {node.size}")
            case Enum():
                number = self._number("int")
                with self.source.block(f"if {number} & 1 or {number} >= {2 * len(node.symbols)}:"):
                    self.source.add("raise Unfit('a symbol that the enum does not have')")
            case Primitive():
                self._primitive(node.kind)

    def _primitive(self, kind: str) -> None:
        match kind:
            case "boolean":
                self.source.add("BOOLEANS[data[i]]; i += 1")
            case "int" | "long":
                self._number(kind)
            case "float" | "double":
                self.source.add(f"i += {4 if kind == 'float' else 8}")
            case "string" | "bytes":
                self.source.add("i, j = span(data, i); i = j")

    def _number(self, kind: str) -> str:
        number = self.source.name("n")
        self.source.add(f"{number} = data[i]; i += 1")
        with self.source.block(f"if {number} > 127:"):
            self.source.add(f"{number}, i = {'more' if kind == 'long' else 'more_int'}(data, i, {number})")
        return number

    def _union(self, node: Union, path: str, depth: int) -> None:
        index = self._number("long")
        for number, branch in enumerate(node.branches):
            with self.source.block(f"{'elif' if number else 'if'} {index} == {number * 2}:"):
                self.source.add("pass")
                self.skip(branch, path, depth + 1)
        with self.source.block("else:"):
            self.source.add("raise Unfit('a branch that the union does not have')")

    def _items(self, node: Node, keys: bool, path: str, depth: int) -> None:
        with self.blocks(self.sizes.least(node) + keys):
            self.source.add("pass")
            if keys:
                self._primitive("string")
            self.skip(node, f"{path}[]", depth + 1)

    @contextmanager
    def blocks(self, least: int) -> Iterator[None]:
        """The loop over the items of an array or map, whose lines follow.

        A block of no items is the last. Its number is 0, or a 0 with more bytes than it needs.
        """
        number, count = self.source.name("n"), self.source.name("c")
        self.source.add(f"{number} = data[i]; i += 1")
        with self.source.block(f"while {number}:"):
            if least:
                with self.source.block(f"if {number} & 129:"):
                    self.source.add(f"{count}, i = block(data, i, {number}, {least})")
                    self._break_unless(count)
                with self.source.block("else:"):
                    self.source.add(f"{count} = {number} >> 1")
                    with self.source.block(f"if {count} * {least} > len(data) - i:"):
                        self.source.add("raise Unfit('more items than bytes')")
            else:
                self.metered = True
                self.source.add(f"{count}, i = free_block(data, i, {number})")
                self._break_unless(count)
            with self.source.block(f"for _ in range({count}):"):
                yield
            self.source.add(f"{number} = data[i]; i += 1")

    def _break_unless(self, count: str) -> None:
        with self.source.block(f"if not {count}:"):
            self.source.add("break")
