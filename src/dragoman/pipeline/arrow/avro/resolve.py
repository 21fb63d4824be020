"""Compile how a writer's values become a reader's columns, by Avro's rules of resolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dragoman.core.errors import IncompatibleSchema
from dragoman.pipeline.arrow.arrays import (
    lift,
    null_mask,
    retyped,
    struct,
    valid_mask,
    with_entries,
    with_values,
)
from dragoman.pipeline.arrow.avro import leaves, rows, wire
from dragoman.pipeline.arrow.avro.defaults import default_column
from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.match import Alike, Match
from dragoman.pipeline.arrow.avro.opaque import opaque, opaque_default
from dragoman.pipeline.arrow.avro.target import Opaque, arrow_type, standalone
from dragoman.pipeline.arrow.avro.tree import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Tree,
    Union,
    optional,
    short,
)
from dragoman.pipeline.arrow.avro.unions import from_union, into_union
from dragoman.pipeline.arrow.avro.wire import Wire
from dragoman.pipeline.arrow.constraints import Constrained
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection
from dragoman.pipeline.arrow.text import invalid_text
from dragoman.schema.logical import Logical, same_kind


@dataclass(frozen=True, slots=True)
class Step:
    """How one type lies in the bytes, and how its column is made from that."""

    wire: Wire
    resolve: Resolver


class Incompatible(IncompatibleSchema):
    """No value of the writer's type can be read as the reader's."""


class Compiler:
    """One writer's tree against one reader's targets."""

    def __init__(self, writer: Tree, mapping: Mapping) -> None:
        self.writer = writer
        self.mapping = mapping

    def step(self, node: Node, target: Any, match: Match, path: str = "") -> Step:
        node = self.writer.follow(node)
        if isinstance(target, Opaque):
            return self._opaque(node, target, path)
        if isinstance(node, Union):
            return self._from_union(node, target, match, path)
        if isinstance(target, Union):
            return self._into_union(node, target, match, path)
        step = self._same_kind(node, target, match, path)
        constraints = getattr(target, "constraints", ())
        if not constraints:
            return step
        check = Constrained(constraints, arrow_type(target, self.mapping), path)
        return Step(step.wire, _constrained(step.resolve, check))

    def _same_kind(self, node: Node, target: Any, match: Match, path: str) -> Step:
        match node, target:
            case Record(), Record() if _same_name(node, target):
                return self._record(node, target, match, path)
            case Array(), Array():
                return self._array(node, target, match, path)
            case Map(), Map():
                return self._map(node, target, match, path)
            case Enum(), Enum() if _same_name(node, target):
                return Step(wire.enum(node), _enum(node, target, path))
            case Fixed(), Fixed() if _same_name(node, target) and node.size == target.size:
                return Step(wire.fixed(node), self._bytes(node, target, path))
            case Primitive(), Primitive():
                return Step(wire.primitive(node), self._primitive(node, target, path))
        raise self._refusal(node, target, path)

    def _refusal(self, node: Any, target: Any, path: str) -> Incompatible:
        names = [_described(each) for each in (node, target)]
        return Incompatible(f"The writer's {names[0]} cannot be read as {names[1]}.", path=path or None)

    def _opaque(self, node: Any, target: Opaque, path: str) -> Step:
        if isinstance(node, Opaque):
            return Step(Wire(pa.binary(), rows.read_bytes), opaque_default(target))
        whole = wire.Skipper(self.writer).reader(node)
        read = rows.slice_reader(whole)
        schema = standalone(self.writer, node)
        return Step(Wire(pa.binary(), read), opaque(schema, target, path))

    def _record(self, node: Record, target: Record, match: Match, path: str) -> Step:
        places = {each.name: index for index, each in enumerate(node.fields)}
        sources = {name: places[source] for name, source in match.fields().items()}
        wires: list[Wire] = [wire.skipped(self.writer, NULL)] * len(node.fields)
        columns: list[tuple[int | None, Resolver]] = []
        for each in target.fields:
            place = f"{path}.{each.name}" if path else each.name
            index = sources.get(each.name)
            if index is None:
                columns.append((None, self._default(each, place)))
                continue
            step = self.step(node.fields[index].node, each.node, match.field(each.name), place)
            wires[index] = step.wire
            columns.append((index, step.resolve))
        for index, written in enumerate(node.fields):
            if index not in sources.values():
                wires[index] = wire.skipped(self.writer, written.node)
        names = [each.name for each in node.fields]
        shape = wire.record(list(zip(names, wires, strict=True)))
        return Step(shape, _record(columns, arrow_type(target, self.mapping)))

    def _default(self, field: Field, path: str) -> Resolver:
        if not field.has_default:
            raise Incompatible("The writer does not have the field, and it has no default.", path=path)
        column = default_of(field, self.mapping, path)
        return lambda array, faults: column(len(array))

    def _array(self, node: Array, target: Array, match: Match, path: str) -> Step:
        items = self.step(node.items, target.items, match.items(), path + "[]")
        type = arrow_type(target, self.mapping)

        def resolve(array: Any, faults: list[Fault]) -> Any:
            inner: list[Fault] = []
            values = items.resolve(array.values, inner)
            faults += [Fault(lift(array, each.mask), each.rejection) for each in inner]
            return with_values(array, values, type)

        return Step(wire.array(items.wire, wire.is_empty(self.writer, node.items)), resolve)

    def _map(self, node: Map, target: Map, match: Match, path: str) -> Step:
        values = self.step(node.values, target.values, match.items(), path + "{}")
        type = arrow_type(target, self.mapping)
        wrong_key = Rejection(Reason.TEXT, "The key is not valid UTF-8.", path + "{}")

        def resolve(array: Any, faults: list[Fault]) -> Any:
            inner: list[Fault] = []
            items = values.resolve(array.items, inner)
            keys, wrong = invalid_text(array.keys)
            if wrong is not None:
                inner.append(Fault(wrong, wrong_key))
            faults += [Fault(lift(array, each.mask), each.rejection) for each in inner]
            return with_entries(array, keys, items, type)

        return Step(wire.map_of(values.wire), resolve)

    def _primitive(self, node: Primitive, target: Primitive, path: str) -> Resolver:
        if node.kind in leaves.NUMBERS and target.kind in leaves.NUMBERS:
            narrowed = leaves.NUMBERS[node.kind] > leaves.NUMBERS[target.kind]
            if narrowed or not _same_kind(node, target):
                raise self._refusal(node, target, path)
            return leaves.number(node, target, arrow_type(target, self.mapping), path)
        if {node.kind, target.kind} <= {"string", "bytes"}:
            return self._bytes(node, target, path)
        if node.kind != target.kind:
            raise self._refusal(node, target, path)
        return leaves.unchanged

    def _bytes(self, node: Primitive | Fixed, target: Primitive | Fixed, path: str) -> Resolver:
        if target.logical == "decimal":
            return leaves.decimal(node, target, arrow_type(target, self.mapping), path)
        if target.kind == "string":
            assert isinstance(target, Primitive)
            return leaves.text(target, path)
        if target.logical == "uuid":
            return leaves.fixed_uuid
        if target.logical == "duration":
            return leaves.duration
        return leaves.binary

    def _from_union(self, node: Union, target: Any, match: Match, path: str) -> Step:
        inner = optional(node)
        if inner is None:
            return self._from_branches(node, target, match, path)
        match = match.written(node.branches.index(inner))
        if isinstance(target, Union) and optional(target) is not None:
            step = self._into_optional(inner, target, match, path)
        else:
            step = self.step(inner, target, match, path)
        shape = wire.optional_of(step.wire, node.branches[0] == NULL)
        if _takes_null(target):
            return Step(shape, step.resolve)
        return Step(shape, _required(step.resolve, path))

    def _from_branches(self, node: Union, target: Any, match: Match, path: str) -> Step:
        steps: list[Step | None] = []
        shapes: list[Wire] = []
        for index, branch in enumerate(node.branches):
            try:
                step = self.step(branch, target, match.written(index), path)
            except IncompatibleSchema:
                steps.append(None)
                shapes.append(wire.Skipper(self.writer).wire(branch, frozenset()))
            else:
                steps.append(step)
                shapes.append(step.wire)
        if not any(steps):
            raise self._refusal(node, target, path)
        type = arrow_type(target, self.mapping)
        resolvers = [None if each is None else each.resolve for each in steps]
        return Step(wire.union(shapes), from_union(resolvers, type, path))

    def _into_union(self, node: Node, target: Union, match: Match, path: str) -> Step:
        type = arrow_type(target, self.mapping)
        if optional(target) is not None:
            if node == NULL:
                return Step(wire.skipped(self.writer, NULL), lambda array, faults: pa.nulls(len(array), type))
            return self._into_optional(node, target, match, path)
        index = match.branch()
        if index is None:
            raise self._refusal(node, target, path)
        step = self.step(node, target.branches[index], match.taken(index), path)
        return Step(step.wire, into_union(target, index, step.resolve, type))

    def _into_optional(self, node: Node, target: Union, match: Match, path: str) -> Step:
        index = 1 if target.branches[0] == NULL else 0
        return self.step(node, target.branches[index], match.taken(index), path)


def _same_kind(node: Primitive, target: Primitive) -> bool:
    return same_kind(*(Logical(each.logical) if each.logical else None for each in (node, target)))


def _described(node: Any) -> str:
    return getattr(node, "logical", None) or f"{node.kind} {getattr(node, 'name', '')}".strip()


def _record(columns: list[tuple[int | None, Resolver]], type: Any) -> Resolver:
    def resolve(array: Any, faults: list[Fault]) -> Any:
        inner: list[Fault] = [] if array.null_count else faults
        children = [
            resolver(array if index is None else array.field(index), inner) for index, resolver in columns
        ]
        valid = valid_mask(array)
        if valid is not None:
            faults += [Fault(each.mask & valid, each.rejection) for each in inner]
        return struct(children, type, null_mask(array), len(array))

    return resolve


def _constrained(resolver: Resolver, check: Constrained) -> Resolver:
    def resolve(array: Any, faults: list[Fault]) -> Any:
        column = resolver(array, faults)
        check(column, faults)
        return column

    return resolve


def _enum(node: Enum, target: Enum, path: str) -> Resolver:
    unknown = [symbol for symbol in node.symbols if symbol not in target.symbols]
    if not unknown:
        return leaves.string_of_enum
    names, fallback = pa.array(unknown, pa.string()), target.default

    def resolve(array: Any, faults: list[Fault]) -> Any:
        array = retyped(array, pa.string())
        found = pc.is_in(array, names)
        if fallback is not None:
            return pc.if_else(found, pa.scalar(fallback, pa.string()), array)
        mask = found.to_numpy(zero_copy_only=False)
        if mask.any():
            reason = "The reader's enum does not have the symbol, and has no default."
            faults.append(Fault(mask, Rejection(Reason.ENUM, reason, path)))
        return array

    return resolve


def _required(resolver: Resolver, path: str) -> Resolver:
    rejection = Rejection(Reason.NULL, "The value is null, the reader needs one.", path)

    def resolve(array: Any, faults: list[Fault]) -> Any:
        if array.null_count:
            faults.append(Fault(array.is_null().to_numpy(zero_copy_only=False), rejection))
        return resolver(array, faults)

    return resolve


def _takes_null(target: Any) -> bool:
    return target == NULL or (isinstance(target, Union) and NULL in target.branches)


def _same_name(node: Record | Enum | Fixed, target: Record | Enum | Fixed) -> bool:
    return short(node.name) == short(target.name) or node.name in target.aliases


def default_of(field: Field, mapping: Mapping, path: str) -> Callable[[int], Any]:
    """The default of a reader's field as a column of any length."""
    own = Compiler(Tree(Record("default", ())), mapping).step(field.node, field.node, Alike(field.node), path)
    return default_column(field, own.wire.type, own.resolve, path)
