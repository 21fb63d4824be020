"""A writer's type as it lies in the bytes: how rows read it, and a schema that reads it vectorised.

The vectorised reader knows few types, takes any bytes for text, and checks no ranges. So it is given a
schema with the same bytes on the wire: ``int`` as ``long``, ``bytes`` as ``string``, ``fixed`` as a record
of doubles and floats. The resolver turns the columns back and checks what was left unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow.avro import rows
from dragoman.pipeline.arrow.avro.rows import RowReader
from dragoman.pipeline.arrow.avro.tree import (
    NULL,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Reference,
    Tree,
    Union,
    optional,
)

MAXFAST_FIXED = 64
WRAPPED = "wrapped"
_names: Iterator[int] = count(1)

FAST = {"int": "long", "bytes": "string"}
_ROW_TYPES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Wire:
    """``type`` is the Arrow type of what ``read`` gives. ``schema`` is ``None`` if only rows can read it."""

    type: Any
    read: RowReader
    schema: Any = None


def primitive(node: Primitive) -> Wire:
    kind = node.kind
    return Wire(_ROW_TYPES[kind], rows.PRIMITIVES[kind], FAST.get(kind, kind))


def fixed(node: Fixed) -> Wire:
    return Wire(pa.binary(), rows.fixed_reader(node.size), _fixed_schema(node.size))


def _fixed_schema(size: int) -> Any:
    if size % 4 or not 0 < size <= MAXFAST_FIXED:
        return None
    kinds = ["double"] * (size // 8) + ["float"] * (size % 8 // 4)
    return named("record", fields=[{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)])


def enum(node: Enum) -> Wire:
    schema = named("enum", symbols=list(node.symbols)) if node.symbols else None
    return Wire(pa.string(), rows.enum_reader(node.symbols), schema)


def record(fields: list[tuple[str, Wire]]) -> Wire:
    type = pa.struct([(name, wire.type) for name, wire in fields])
    known = bool(fields) and all(wire.schema is not None for _, wire in fields)
    listed = [{"name": f"f{i}", "type": wire.schema} for i, (_, wire) in enumerate(fields)]
    reader = rows.record_reader([(name, wire.read) for name, wire in fields])
    return Wire(type, reader, named("record", fields=listed) if known else None)


def array(items: Wire, empty_items: bool) -> Wire:
    known = items.schema is not None and not empty_items
    schema = {"type": "array", "items": items.schema} if known else None
    return Wire(pa.list_(items.type), rows.array_reader(items.read, empty_items), schema)


def map_of(values: Wire) -> Wire:
    schema = None if values.schema is None else {"type": "map", "values": values.schema}
    return Wire(pa.map_(pa.binary(), values.type), rows.map_reader(values.read), schema)


def optional_of(value: Wire, null_first: bool) -> Wire:
    schema = None
    if value.schema is not None and not _is_union(value.schema):
        schema = ["null", value.schema] if null_first else [value.schema, "null"]
    return Wire(value.type, rows.optional_reader(value.read, null_first), schema)


def union(branches: list[Wire]) -> Wire:
    type = pa.struct([("tag", pa.int8()), *((f"b{i}", wire.type) for i, wire in enumerate(branches))])
    known = all(wire.schema is not None and not _is_union(wire.schema) for wire in branches)
    schema = _distinct([wire.schema for wire in branches]) if known else None
    return Wire(type, rows.union_reader([wire.read for wire in branches]), schema)


def _distinct(schemas: list[Any]) -> list[Any]:
    kinds = [schema if isinstance(schema, str) else schema["type"] for schema in schemas]
    return [
        named("record", fields=[{"name": WRAPPED, "type": schema}]) if again else schema
        for schema, again in zip(schemas, repeated(kinds), strict=True)
    ]


def repeated(kinds: list[str]) -> list[bool]:
    """A union may hold an unnamed type once. ``int`` and ``long`` are one here, so the second is wrapped."""
    alike = [FAST.get(kind, kind) for kind in kinds]
    named_kinds = ("record", "enum", "fixed")
    return [kind in alike[:index] and kind not in named_kinds for index, kind in enumerate(alike)]


def _is_union(schema: Any) -> bool:
    return isinstance(schema, list)


def named(kind: str, **rest: Any) -> dict[str, Any]:
    return {"type": kind, "name": f"n{next(_names)}", **rest}


def skipped(tree: Tree, node: Node) -> Wire:
    """A value of the writer's that the reader does not have: checked, then forgotten."""
    whole = Skipper(tree)
    return Wire(pa.null(), rows.skip_reader(whole.reader(node)), whole.schema(node, frozenset()))


def is_empty(tree: Tree, node: Node, open: frozenset[str] = frozenset()) -> bool:
    """Whether a value may take no bytes at all."""
    if isinstance(node, Reference) and node.name in open:
        return True
    node = tree.follow(node)
    if isinstance(node, Record):
        return all(is_empty(tree, each.node, open | {node.name}) for each in node.fields)
    return node == NULL or (isinstance(node, Fixed) and node.size == 0)


class Skipper:
    """Readers and schemas for whole types, whatever is in them, recursion included."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.named: dict[str, RowReader] = {}

    def reader(self, node: Node) -> RowReader:
        match node:
            case Reference():
                return self._reference(node.name)
            case Record():
                fields = [(each.name, self.reader(each.node)) for each in node.fields]
                self.named[node.name] = found = rows.record_reader(fields)
                return found
            case Array():
                return rows.array_reader(self.reader(node.items), is_empty(self.tree, node.items))
            case Map():
                return rows.map_reader(self.reader(node.values))
            case Union():
                return rows.union_reader([self.reader(each) for each in node.branches])
            case Fixed():
                return fixed(node).read
            case Enum():
                return enum(node).read
            case Primitive():
                return primitive(node).read

    def _reference(self, name: str) -> RowReader:
        """Looked up when used, since a recursive type's reader is not there yet."""

        def read(data: bytes, at: int) -> tuple[Any, int]:
            found = self.named.get(name)
            if found is None:
                found = self.named[name] = self.reader(self.tree.names[name])
            return found(data, at)

        return read

    def schema(self, node: Node, open: frozenset[str]) -> Any:
        if isinstance(node, Reference):
            if node.name in open:
                return None
            node = self.tree.names[node.name]
        return self.wire(node, open).schema

    def wire(self, node: Node, open: frozenset[str]) -> Wire:
        node = self.tree.follow(node)
        match node:
            case Record():
                if node.name in open:
                    return Wire(pa.null(), rows.read_null)
                inside = open | {node.name}
                return record([(each.name, self.wire(each.node, inside)) for each in node.fields])
            case Array():
                return array(self.wire(node.items, open), is_empty(self.tree, node.items))
            case Map():
                return map_of(self.wire(node.values, open))
            case Union():
                inner = optional(node)
                if inner is not None:
                    return optional_of(self.wire(inner, open), node.branches[0] == NULL)
                return union([self.wire(each, open) for each in node.branches])
            case Fixed():
                return fixed(node)
            case Enum():
                return enum(node)
            case Primitive():
                return primitive(node)
            case _:
                return Wire(pa.null(), rows.read_null)
