"""The reader's schema as columns: a finite tree, in which what cannot be a column is opaque."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.arrow.avro.tree import (
    NULL,
    WHOLE,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Reference,
    Tree,
    Union,
    optional,
    parse,
    short,
)
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.variant import VARIANT_TYPE

MAX_PRECISION = 38
DURATION_TYPE = pa.struct([("months", pa.int64()), ("days", pa.int64()), ("milliseconds", pa.int64())])


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value kept whole, as VARIANT or JSON text. ``schema`` stands by itself.

    ``name`` is that of a type which contains itself.
    """

    schema: str
    form: str
    name: str = ""
    kind: str = "opaque"

    @property
    def takes_null(self) -> bool:
        """Whether null is a value of its own: that of a union."""
        node = parse(self.schema).unwrapped
        return isinstance(node, Union) and NULL in node.branches


Target = Primitive | Fixed | Enum | Array | Map | Record | Union | Opaque


def target_of(tree: Tree, mapping: Mapping) -> Record:
    root = _target(tree, tree.root, mapping, frozenset())
    assert isinstance(root, Record)
    return root


def whole_target(tree: Tree, mapping: Mapping) -> Record:
    """The message as one opaque value, of the writer's own schema."""
    value: Any = Opaque(standalone(tree, tree.unwrapped), mapping.whole)
    return Record(WHOLE, (Field("value", value),))


def _target(tree: Tree, node: Node, mapping: Mapping, open: frozenset[str]) -> Any:
    if isinstance(node, Reference):
        if node.name in open:
            return _recursion(tree, node, mapping)
        node = tree.names[node.name]
    match node:
        case Record():
            inside = open | {node.name}
            fields = tuple(
                replace(each, node=_target(tree, each.node, mapping, inside)) for each in node.fields
            )
            return replace(node, fields=fields)
        case Array():
            return replace(node, items=_target(tree, node.items, mapping, open))
        case Map():
            return replace(node, values=_target(tree, node.values, mapping, open))
        case Union():
            if mapping.unions != "struct" and optional(node) is None:
                return Opaque(standalone(tree, node), mapping.unions)
            return Union(tuple(_target(tree, each, mapping, open) for each in node.branches))
        case _:
            return node


def _recursion(tree: Tree, node: Reference, mapping: Mapping) -> Opaque:
    if mapping.recursion == "refuse":
        raise ConfigurationError(
            f"The type {node.name} contains itself, a table's columns cannot.",
            code="configuration.recursive-type",
            next="Set the option recursion to variant or json to keep the inner value whole.",
        )
    return Opaque(standalone(tree, node), mapping.recursion, node.name)


def standalone(tree: Tree, node: Node) -> str:
    """The schema text of one node, with every named type defined where it is first used."""
    return json.dumps(_json(tree, node, set(), ""))


def _json(tree: Tree, node: Node, defined: set[str], namespace: str) -> Any:
    """``namespace`` is that of the record around the node."""
    node = tree.follow(node)
    match node:
        case Primitive():
            return {"type": node.kind, **_logical(node)}
        case Array():
            return {"type": "array", "items": _json(tree, node.items, defined, namespace)}
        case Map():
            return {"type": "map", "values": _json(tree, node.values, defined, namespace)}
        case Union():
            return [_json(tree, each, defined, namespace) for each in node.branches]
        case Record() | Enum() | Fixed():
            if node.name in defined:
                return _again(node.name, defined, namespace)
            defined.add(node.name)
            return _named_json(tree, node, defined, namespace)
        case _:
            raise AssertionError(node)


def _again(name: str, defined: set[str], namespace: str) -> str:
    """A name without a namespace means the type of that name around it first, if there is one."""
    if namespace and "." not in name and f"{namespace}.{name}" in defined:
        raise ConfigurationError(
            f"A value with the types {name} and {namespace}.{name} cannot be kept whole.",
            next=f"Give {name} a namespace, or read the channel with mode raw.",
        )
    return name


def _named_json(tree: Tree, node: Record | Enum | Fixed, defined: set[str], namespace: str) -> dict[str, Any]:
    text: dict[str, Any] = {"type": node.kind, "name": node.name, "aliases": list(node.aliases)}
    own = node.name.rpartition(".")[0]
    if namespace and not own:
        # Without a word it would take the namespace around it.
        text["namespace"] = ""
    match node:
        case Enum():
            text |= {"symbols": list(node.symbols)} | ({"default": node.default} if node.default else {})
        case Fixed():
            text |= {"size": node.size, **_logical(node)}
        case Record():
            text["fields"] = [_field_json(tree, each, defined, own) for each in node.fields]
    return text


def _field_json(tree: Tree, field: Field, defined: set[str], namespace: str) -> dict[str, Any]:
    type = _json(tree, field.node, defined, namespace)
    text = {"name": field.name, "type": type, "aliases": list(field.aliases)}
    return text | ({"default": field.default} if field.has_default else {})


def _logical(node: Primitive | Fixed) -> dict[str, Any]:
    if node.logical is None:
        return {}
    if node.logical == "decimal":
        return {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
    return {"logicalType": node.logical}


_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_TIMES = {
    "date": pa.date32(),
    "time-millis": pa.time64("ns"),
    "time-micros": pa.time64("ns"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
    "duration": DURATION_TYPE,
}


def arrow_type(target: Any, mapping: Mapping) -> Any:
    """The column's type. Everything is nullable, since a rejected row has no values."""
    match target:
        case Record():
            return pa.struct([(each.name, arrow_type(each.node, mapping)) for each in target.fields])
        case Array():
            return pa.list_(pa.field("element", arrow_type(target.items, mapping)))
        case Map():
            return pa.map_(pa.string(), pa.field("value", arrow_type(target.values, mapping)))
        case Union():
            inner = optional(target)
            return _union_type(target, mapping) if inner is None else arrow_type(inner, mapping)
        case Opaque():
            return VARIANT_TYPE if target.form == "variant" else pa.string()
        case Primitive() | Fixed() if target.logical is not None:
            return _logical_type(target, mapping)
        case _:
            return _PLAIN[target.kind]


def _logical_type(target: Primitive | Fixed, mapping: Mapping) -> Any:
    logical = target.logical
    if logical == "decimal":
        fits = target.precision <= MAX_PRECISION
        return pa.decimal128(target.precision, target.scale) if fits else pa.string()
    if logical in ("timestamp-nanos", "local-timestamp-nanos"):
        if mapping.nanos == "long":
            return pa.int64()
        return pa.timestamp("us", "UTC") if logical == "timestamp-nanos" else pa.timestamp("us")
    return _TIMES[logical or ""]


def _union_type(target: Union, mapping: Mapping) -> Any:
    members = member_names(target)
    return pa.struct([(name, arrow_type(node, mapping)) for name, node in members])


def member_names(target: Union) -> list[tuple[str, Any]]:
    """The branches beside null, each with its column: the type's name, in full where that is needed."""
    branches = [each for each in target.branches if each != NULL]
    labels = [getattr(each, "name", each.kind) for each in branches]
    shorts = [short(label) for label in labels]
    names: list[str] = []
    for label, simple in zip(labels, shorts, strict=True):
        name = simple if shorts.count(simple) == 1 else label.replace(".", "_")
        while name in names or (name != simple and name in shorts):
            name += "_"
        names.append(name)
    return list(zip(names, branches, strict=True))
