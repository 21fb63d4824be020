"""Checks of the constraints that annotations state, made once per field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dragoman.core.errors import ConstraintViolated
from dragoman.schema.markers import Constraint, Length, Max, Min

Check = Callable[[Any], Any]


def checker(field: str, constraints: tuple[Constraint, ...]) -> Check:
    """A function that gives back its argument, or raises ``ConstraintViolated``."""
    checks = [_check(constraint) for constraint in constraints]

    def check(value: Any) -> Any:
        for holds, rule in checks:
            if not holds(value):
                raise ConstraintViolated(f"The value breaks its constraint: {rule}.", field=field)
        return value

    return check


def _check(constraint: Constraint) -> tuple[Callable[[Any], bool], str]:
    if isinstance(constraint, Min):
        low = constraint.value
        if constraint.exclusive:
            return (lambda value: value > low), f"above {low}"
        return (lambda value: value >= low), f"at least {low}"
    if isinstance(constraint, Max):
        high = constraint.value
        if constraint.exclusive:
            return (lambda value: value < high), f"below {high}"
        return (lambda value: value <= high), f"at most {high}"
    if isinstance(constraint, Length):
        return _length(constraint.min, constraint.max)
    found = re.compile(constraint.regex).search
    return (lambda value: found(value) is not None), f"matching {constraint.regex!r}"


def _length(low: int, high: int | None) -> tuple[Callable[[Any], bool], str]:
    if high is None:
        return (lambda value: len(value) >= low), f"a length of at least {low}"
    return (lambda value: low <= len(value) <= high), f"a length from {low} to {high}"
