"""Constraints, as lines of a codec: those of a class on both sides, those of a schema alone when encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.formats.avro.binding import constraints_of
from dragoman.formats.avro.constraints import stated
from dragoman.formats.avro.nodes import Fixed, Node, Primitive
from dragoman.formats.avro.source import Source
from dragoman.schema.markers import Constraint, Length, Max, Min, Pattern
from dragoman.schema.types import Type


def add_limits(source: Source, type: Type | None, value: str) -> None:
    """Lines that refuse the value, a name or an expression, if it breaks a constraint of the class."""
    _add(source, constraints_of(type), value)


def add_stated_limits(source: Source, node: Node, value: str) -> None:
    """The same for a plain value, which has no class: what the schema's text states."""
    constraints = stated(node)
    if isinstance(node, Primitive | Fixed) and node.logical is not None:
        # Such a value may also be the bare number or bytes, with which a date, say, does not compare.
        for each in constraints:
            if isinstance(each, Min | Max):
                kind = source.bind(each.value.__class__, "class")
                with source.block(f"if isinstance({value}, {kind}):"):
                    _add(source, (each,), value)
        return
    _add(source, constraints, value)


def _add(source: Source, constraints: Iterable[Constraint], value: str) -> None:
    for constraint in constraints:
        match constraint:
            case Min():
                limit = source.bind(constraint.value, "limit")
                sign, words = (">", "above") if constraint.exclusive else (">=", "at least")
                _refuse(source, f"not {value} {sign} {limit}", f"{words} {constraint.value}")
            case Max():
                limit = source.bind(constraint.value, "limit")
                sign, words = ("<", "below") if constraint.exclusive else ("<=", "at most")
                _refuse(source, f"not {value} {sign} {limit}", f"{words} {constraint.value}")
            case Length():
                top = f" <= {constraint.max}" if constraint.max is not None else ""
                rule = f"of length {constraint.min} to {constraint.max if top else 'any'}"
                _refuse(source, f"not {constraint.min} <= len({value}){top}", rule)
            case Pattern():
                search = source.bind(re.compile(constraint.regex).search, "pattern")
                _refuse(source, f"{search}({value}) is None", f"like {constraint.regex}")


def _refuse(source: Source, condition: str, rule: str) -> None:
    with source.block(f"if {condition}:"):
        source.add(f"raise Broken({rule!r})")
