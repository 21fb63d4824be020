"""A writer's type as it lies in the bytes: how rows read it, and a schema that reads it vectorised.

The vectorised reader knows few types, takes any bytes for text, and checks no ranges. So it is given a
schema with the same bytes on the wire: ``int`` as ``long``, ``bytes`` as ``string``, ``fixed`` as a record
of doubles and floats. The resolver turns the columns back and checks what was left unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow.arrays import null_mask, with_entries, with_values
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

MAX_FAST_FIXED = 64
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
    """``type`` is the Arrow type of what ``read`` gives. ``schema`` is ``None`` if only rows can read it.

    ``parts`` are those of a record. ``restore`` gives what the vectorised reader read its nesting back.
    """

    type: Any
    read: RowReader
    schema: Any = None
    parts: tuple[Wire, ...] = ()
    restore: Restore | None = None


Restore = Callable[[Any], Any]


def primitive(node: Primitive) -> Wire:
    kind = node.kind
    return Wire(_ROW_TYPES[kind], rows.PRIMITIVES[kind], FAST.get(kind, kind))


def fixed(node: Fixed) -> Wire:
    read = rows.fixed_reader(node.size)
    if node.size % 4 or not 0 < node.size <= MAX_FAST_FIXED:
        return Wire(pa.binary(), read)
    kinds = ["double"] * (node.size // 8) + ["float"] * (node.size % 8 // 4)
    parts = tuple(primitive(Primitive(kind)) for kind in kinds)
    return Wire(pa.binary(), read, _record_schema([part.schema for part in parts]), parts)


def _record_schema(types: list[Any]) -> dict[str, Any] | None:
    """Fields that are always null take no bytes, and are left out. A record of nothing is not known."""
    fields = [{"name": f"f{i}", "type": type} for i, type in enumerate(types) if type != "null"]
    return named("record", fields=fields) if fields else None


def enum(node: Enum) -> Wire:
    schema = named("enum", symbols=list(node.symbols)) if node.symbols else None
    return Wire(pa.string(), rows.enum_reader(node.symbols), schema)


def record(fields: list[tuple[str, Wire]]) -> Wire:
    type = pa.struct([(name, wire.type) for name, wire in fields])
    reader = rows.record_reader([(name, wire.read) for name, wire in fields])
    parts = tuple(wire for _, wire in fields)
    if not parts or any(wire.schema is None for wire in parts):
        return Wire(type, reader)
    schema = _record_schema([wire.schema for wire in parts])
    return Wire(type, reader, schema, parts, _restore_record(parts))


def _restore_record(parts: tuple[Wire, ...]) -> Restore | None:
    if not any(part.restore or part.schema == "null" for part in parts):
        return None
    return lambda array: _nested(parts, _columns(array), array, deep=False)


def _columns(array: Any) -> Iterator[Any]:
    return (array.field(i) for i in range(array.type.num_fields))


def _restored(wire: Wire, column: Any) -> Any:
    return column if wire.restore is None else wire.restore(column)


def _numbered(parts: tuple[Wire, ...]) -> list[str]:
    return [f"f{i}" for i in range(len(parts))]


def array(items: Wire, empty_items: bool) -> Wire:
    reader = rows.array_reader(items.read, empty_items)
    if items.schema is None or empty_items:
        return Wire(pa.list_(items.type), reader)
    restore = None
    if items.restore is not None:
        inner = items.restore

        def restore(array: Any) -> Any:
            values = inner(array.values)
            return with_values(array, values, pa.list_(values.type))

    return Wire(pa.list_(items.type), reader, {"type": "array", "items": items.schema}, (), restore)


def map_of(values: Wire) -> Wire:
    type, reader = pa.map_(pa.binary(), values.type), rows.map_reader(values.read)
    if values.schema in (None, "null"):
        return Wire(type, reader)
    restore = None
    if values.restore is not None:
        inner = values.restore

        def restore(array: Any) -> Any:
            items = inner(array.items)
            return with_entries(array, array.keys, items, pa.map_(pa.string(), items.type))

    return Wire(type, reader, {"type": "map", "values": values.schema}, (), restore)


def optional_of(value: Wire, null_first: bool, flat: bool = True) -> Wire:
    reader = rows.optional_reader(value.read, null_first)
    if value.schema is None or _is_union(value.schema):
        return Wire(value.type, reader)
    inner = flattened(value) if flat else value
    schema = ["null", inner.schema] if null_first else [inner.schema, "null"]
    return Wire(value.type, reader, schema, (), inner.restore)


def union(branches: list[Wire], flat: bool = True) -> Wire:
    type = pa.struct([("tag", pa.int8()), *((f"b{i}", wire.type) for i, wire in enumerate(branches))])
    reader = rows.union_reader([wire.read for wire in branches])
    if any(wire.schema is None or _is_union(wire.schema) for wire in branches):
        return Wire(type, reader)
    inner = [flattened(wire) if flat else wire for wire in branches]
    schema = _distinct([wire.schema for wire in inner])
    return Wire(type, reader, schema, (), _restore_union(inner))


def _restore_union(branches: list[Wire]) -> Restore | None:
    if not any(wire.restore for wire in branches):
        return None

    def restore(array: Any) -> Any:
        children = [array.field(i) for i in range(array.type.num_fields)]
        cells = [
            wire.restore(child) if wire.restore else child
            for wire, child in zip(branches, children, strict=True)
        ]
        names = [each.name for each in array.type]
        return pa.UnionArray.from_sparse(array.type_codes, cells, names)

    return restore


def flattened(value: Wire) -> Wire:
    """A record without records in it: their fields are its own, which are the same bytes.

    Where a record may be absent, the vectorised reader cannot leave out a record within it.
    """
    if not any(part.parts for part in value.parts):
        return value
    schema = _record_schema(list(_flat_schemas(value)))
    parts = value.parts
    return Wire(
        value.type,
        value.read,
        schema,
        parts,
        lambda array: _nested(parts, _columns(array), array, deep=True),
    )


def _flat_schemas(value: Wire) -> Iterator[Any]:
    for part in value.parts:
        if part.parts:
            yield from _flat_schemas(part)
        else:
            yield part.schema


def _nested(parts: tuple[Wire, ...], columns: Iterator[Any], whole: Any, deep: bool) -> Any:
    """The record of these parts, from columns that lie side by side; ``deep`` if records within it do too."""
    children = []
    for part in parts:
        if part.schema == "null":
            children.append(pa.nulls(len(whole)))
        elif deep and part.parts:
            children.append(_nested(part.parts, columns, whole, deep))
        else:
            children.append(_restored(part, next(columns)))
    return pa.StructArray.from_arrays(children, _numbered(parts), mask=null_mask(whole))


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

    def __init__(self, tree: Tree, flat: bool = True) -> None:
        self.tree = tree
        self.flat = flat
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
                    return optional_of(self.wire(inner, open), node.branches[0] == NULL, self.flat)
                return union([self.wire(each, open) for each in node.branches], self.flat)
            case Fixed():
                return fixed(node)
            case Enum():
                return enum(node)
            case Primitive():
                return primitive(node)
            case _:
                return Wire(pa.null(), rows.read_null)
