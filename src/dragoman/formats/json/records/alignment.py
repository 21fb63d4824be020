"""A record class beside a schema that was not made from it: which fields to leave out when they are ``None``.

A property that may be left out but not be null has no value for ``None``; leaving it out is what was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import Array, Combined, Criterion, Node, Null, Object
from dragoman.formats.json.validator import compiled
from dragoman.schema.types import ArrayType, MapType, RecordType, Type, UnionType


def left_out(model: Model, record: RecordType) -> Mapping[RecordType, frozenset[str]]:
    """For each record type met in the schema, the fields that are not written when they are ``None``."""
    found: dict[RecordType, frozenset[str]] = {}
    seen: set[tuple[Node, int]] = set()
    pending: list[tuple[Node, Type]] = [(model.root, record)]
    while pending:
        node, type = pending.pop()
        if (node, id(type)) in seen:
            continue
        seen.add((node, id(type)))
        if isinstance(node, Object) and isinstance(type, RecordType):
            found[type] = found.get(type, frozenset()) | _not_null(model, node, type)
        pending += _inner(model, node, type)
    return {type: names for type, names in found.items() if names}


def _inner(model: Model, node: Node, type: Type) -> Iterator[tuple[Node, Type]]:
    """What lies in a value, and the alternatives for it."""
    if isinstance(node, Combined):
        for branch in node.branches:
            yield model.at(branch), type
    elif isinstance(type, UnionType):
        for inner in type.branches:
            yield node, inner
    elif isinstance(node, Object) and isinstance(type, RecordType):
        for field in type.fields:
            if field.name in node.properties:
                yield model.at(node.properties[field.name]), field.type
    elif isinstance(node, Object) and isinstance(type, MapType) and node.rest is not None:
        yield model.at(node.rest.place), type.values
    elif isinstance(node, Array) and isinstance(type, ArrayType):
        for place in (*node.prefix, *((node.rest.place,) if node.rest else ())):
            yield model.at(place), type.items


def _not_null(model: Model, node: Object, record: RecordType) -> frozenset[str]:
    names = {
        field.name for field in record.fields if isinstance(field.type, UnionType) and field.type.optional
    }
    return frozenset(
        name
        for name, place in node.properties.items()
        if name in names and name not in node.required and not _takes_null(model, place)
    )


def _takes_null(model: Model, place: Place) -> bool:
    node = model.at(place)
    alternatives = node.branches if isinstance(node, Combined) and node.criterion is Criterion.ANY else ()
    if any(isinstance(model.at(branch), Null) for branch in alternatives):
        return True
    return compiled(model.linked, place).is_valid(None)
