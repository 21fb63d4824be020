"""Constraints, as lines of a codec: the same on both sides."""

from __future__ import annotations

import re

from dragoman.formats.avro.binding import constraints_of
from dragoman.formats.avro.source import Source
from dragoman.schema.markers import Length, Max, Min, Pattern
from dragoman.schema.types import Type


def add_limits(source: Source, type: Type | None, value: str) -> None:
    """Lines that refuse the value, a name or an expression, if it breaks a constraint."""
    for constraint in constraints_of(type):
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
