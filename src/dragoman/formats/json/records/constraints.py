"""Constraints that JSON Schema cannot state, since the value travels as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.formats.json.records.misfit import Violation
from dragoman.schema.markers import Constraint, Length, Max, Min

Check = Callable[[Any], None]


def checks_of(constraints: tuple[Constraint, ...]) -> tuple[Check, ...]:
    return tuple(_check(each) for each in constraints if isinstance(each, Min | Max | Length))


def _check(constraint: Min | Max | Length) -> Check:
    match constraint:
        case Min(limit, exclusive):
            return lambda value: _refuse(value <= limit if exclusive else value < limit, f"below {limit}")
        case Max(limit, exclusive):
            return lambda value: _refuse(value >= limit if exclusive else value > limit, f"above {limit}")
        case Length(least, most):
            return lambda value: _refuse(
                len(value) < least or (most is not None and len(value) > most), "of the wrong length"
            )


def _refuse(wrong: bool, words: str) -> None:
    if wrong:
        raise Violation(f"The value is {words}.")
