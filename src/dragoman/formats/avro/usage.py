"""What a compiler wants to know of a schema before it starts."""

from __future__ import annotations

from dragoman.formats.avro.deep import Deep, run
from dragoman.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Union

MAX_INLINE = 5
"""How deep types are written into one function. Python's own limit is twenty loops inside each other."""


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Array():
            return (node.items,)
        case Map():
            return (node.values,)
        case Union():
            return node.branches
        case Record():
            return tuple(field.type for field in node.fields)
        case _:
            return ()


def shared_records(root: Node) -> frozenset[int]:
    """The ids of the records that are used more than once, recursive ones among them."""
    seen: set[int] = set()
    shared: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            if isinstance(node, Record):
                shared.add(id(node))
            continue
        seen.add(id(node))
        waiting += children(node)
    return frozenset(shared)


class Sizes:
    """The least number of bytes that a value takes."""

    _FIXED = {"null": 0, "float": 4, "double": 8}  # noqa: RUF012

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def least(self, node: Node) -> int:
        return run(self._least(node))

    def _least(self, node: Node) -> Deep[int]:
        match node:
            case Primitive():
                return self._FIXED.get(node.kind, 1)
            case Fixed():
                return node.size
            case Enum() | Array() | Map():
                return 1
            case Union():
                sizes: list[int] = []
                for branch in node.branches:
                    sizes.append((yield self._least(branch)))
                return 1 + min(sizes)
            case Record():
                if id(node) not in self._known:
                    # A record inside itself: whatever it adds, it is not less than nothing.
                    self._known[id(node)] = 0
                    total: int = 0
                    for field in node.fields:
                        total += yield self._least(field.type)
                    self._known[id(node)] = min(total, 1 << 31)
                return self._known[id(node)]
