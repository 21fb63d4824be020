"""A small message that the writer may write and the reader cannot read, in Avro's JSON encoding."""

from __future__ import annotations

from typing import Any

from dragoman.formats.avro.compatibility import Reason, Trail
from dragoman.formats.avro.deep import Deep, run
from dragoman.formats.avro.jsontext import dumps
from dragoman.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Union, label

_VALUES: dict[str, Any] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": "",
    "string": "",
}
MAX_VALUES = 2_000
_UNREAL = object()
"""Stands for a value that cannot be made: a record that always contains itself, or one that is too large."""


def counterexample(root: Node, reason: Reason) -> str | None:
    """The writer's smallest message that reaches the fault; ``None`` if it has no end, or is not small."""
    steps: list[Trail] = []
    trail = reason.trail
    while trail is not None:
        steps.append(trail)
        trail = trail.above
    value = run(_Maker(reason, steps).along(root))
    return None if value is _UNREAL else dumps(value)


class _Maker:
    """``steps`` lead to the fault, the first one last."""

    def __init__(self, reason: Reason, steps: list[Trail]) -> None:
        self.reason = reason
        self.steps = steps
        self.left = MAX_VALUES

    def along(self, node: Node) -> Deep[Any]:
        """A value that takes the steps of the trail, and is as small as can be beside it."""
        if not self.steps and isinstance(node, Enum) and isinstance(self.reason.wanted, str):
            return self.reason.wanted
        # Without a step to take here, the fault was first found on another way to this type.
        if not self.steps or self.steps[-1].node is not node:
            return (yield self.smallest(node, frozenset()))
        step = self.steps.pop().step
        match node:
            case Union():
                branch = node.branches[int(step)]
                return _wrapped(branch, (yield self.along(branch)))
            case Array():
                return _inside((yield self.along(node.items)), lambda value: [value])
            case Map():
                return _inside((yield self.along(node.values)), lambda value: {"key": value})
            case Record():
                return (yield self._record(node, frozenset([node.name]), str(step)))
            case _:
                return (yield self.smallest(node, frozenset()))

    def smallest(self, node: Node, inside: frozenset[str]) -> Deep[Any]:
        self.left -= 1
        if self.left < 0:
            return _UNREAL
        match node:
            case Primitive():
                return _VALUES[node.kind]
            case Fixed():
                return "\0" * node.size if node.size <= MAX_VALUES else _UNREAL
            case Enum():
                return node.symbols[0]
            case Array():
                return []
            case Map():
                return {}
            case Union():
                for branch in sorted(node.branches, key=lambda each: each.kind != "null"):
                    value = yield self.smallest(branch, inside)
                    if value is not _UNREAL:
                        return _wrapped(branch, value)
                return _UNREAL
            case Record():
                if node.name in inside:
                    return _UNREAL
                return (yield self._record(node, inside | {node.name}, None))

    def _record(self, node: Record, inside: frozenset[str], step: str | None) -> Deep[Any]:
        made = {}
        for field in node.fields:
            entered = field.name == step
            value = yield self.along(field.type) if entered else self.smallest(field.type, inside)
            if value is _UNREAL:
                return _UNREAL
            made[field.name] = value
        return made


def _wrapped(branch: Node, value: Any) -> Any:
    """A union's value, under the name of its branch."""
    if value is _UNREAL or value is None:
        return value
    return {label(branch): value}


def _inside(value: Any, container: Any) -> Any:
    return _UNREAL if value is _UNREAL else container(value)
