"""Whether a schema gives every part of a document a type."""

from __future__ import annotations

from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import (
    Anything,
    Array,
    Combined,
    Conditional,
    Node,
    Not,
    Object,
    Typed,
)


def typed_throughout(model: Model) -> bool:
    """True only if no value escapes validation of its type; then a valid document holds JSON alone."""
    seen = {model.root}
    pending = [model.root]
    while pending:
        node = pending.pop()
        if isinstance(node, Anything | Not | Conditional) or (isinstance(node, Typed) and not node.demanded):
            return False
        for place in _parts(node):
            if place is None:
                return False
            inner = model.at(place)
            if inner not in seen:
                seen.add(inner)
                pending.append(inner)
    return True


def _parts(node: Node) -> list[Place | Node | None]:
    """The schemas of all that is in a value; ``None`` for what has none."""
    match node:
        case Object():
            rest = node.rest.place if node.rest and node.rest.certain else None
            return [*node.properties.values(), *node.patterns.values(), rest]
        case Array():
            return [*node.prefix, node.rest.place if node.rest and node.rest.certain else None]
        case Combined():
            return list(node.branches)
        case _:
            return []
