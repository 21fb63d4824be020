"""Planning how a native decoder passes over what the reader does not want."""

from __future__ import annotations

from dragoman.formats.avro.native import engine
from dragoman.formats.avro.native.engine import Reader
from dragoman.formats.avro.native.planning import Unplanned
from dragoman.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Union
from dragoman.formats.avro.usage import Sizes

_SIZES = {"float": 4, "double": 8}


class SkipPlanner:
    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.records: dict[int, engine.SkipRecord] = {}

    def plan(self, node: Node) -> Reader:
        match node:
            case Record():
                return self._record(node)
            case Union():
                return engine.SkipUnion([self.plan(branch) for branch in node.branches])
            case Array():
                return self._items(node.items, False)
            case Map():
                return self._items(node.values, True)
            case Fixed():
                return engine.SkipFixed(node.size)
            case Enum():
                return engine.SkipEnum(len(node.symbols))
            case Primitive():
                return _primitive(node.kind)

    def _record(self, node: Record) -> Reader:
        if id(node) not in self.records:
            made = self.records[id(node)] = engine.SkipRecord()
            made.complete([self.plan(field.type) for field in node.fields])
        return self.records[id(node)]

    def _items(self, node: Node, keys: bool) -> Reader:
        least = self.sizes.least(node) + keys
        if not least:
            raise Unplanned
        return engine.SkipItems(self.plan(node), least, keys)


def _primitive(kind: str) -> Reader:
    match kind:
        case "null":
            return engine.ReadNull()
        case "boolean":
            return engine.ReadBoolean()
        case "int" | "long":
            return engine.ReadWhole(kind == "int")
        case "float" | "double":
            return engine.SkipFixed(_SIZES[kind])
        case _:
            return engine.SkipText()
