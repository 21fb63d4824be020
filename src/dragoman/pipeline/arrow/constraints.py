"""Constraints of a contract's types, checked on whole columns: bounds, lengths and patterns.

They travel in schema texts under the names that JSON Schema has for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dragoman.core.errors import InvalidSchema
from dragoman.pipeline.arrow.arrays import offsets_of
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection

Constraints = tuple[tuple[str, Any], ...]
Check = Callable[[Any], Any]
"""From a column to a boolean array, true where it is right; null counts as right."""

_BOUNDS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "minimum": (pc.greater_equal, "at least"),
    "exclusiveMinimum": (pc.greater, "above"),
    "maximum": (pc.less_equal, "at most"),
    "exclusiveMaximum": (pc.less, "below"),
}
_LENGTHS = {
    f"{bound}{counted}": comparison
    for counted in ("Length", "Items", "Properties")
    for bound, comparison in (
        ("min", (pc.greater_equal, "at least")),
        ("max", (pc.less_equal, "at most")),
    )
}
"""Of texts and bytes, of lists, of maps."""
NAMES = (*_BOUNDS, *_LENGTHS, "pattern")


def constraints_in(schema: Mapping[str, Any]) -> Constraints:
    """The constraints written in a type of a schema."""
    return tuple((name, schema[name]) for name in NAMES if name in schema)


class Constrained:
    """The checks of one type. Calling it appends what is wrong with a column."""

    def __init__(self, constraints: Constraints, type: Any, path: str) -> None:
        self._checks = [
            (_check(name, value, type, path), _rejection(name, value, path)) for name, value in constraints
        ]

    def __call__(self, column: Any, faults: list[Fault], live: Any = None) -> None:
        for check, rejection in self._checks:
            right = check(column).fill_null(True)
            if pc.all(right, min_count=0).as_py():
                continue
            wrong = ~right.to_numpy(zero_copy_only=False)
            faults.append(Fault(wrong if live is None else wrong & live, rejection))


def _rejection(name: str, value: Any, path: str) -> Rejection:
    if name == "pattern":
        return Rejection(Reason.CONSTRAINT, f"The value must be like {value}.", path)
    words = (_BOUNDS.get(name) or _LENGTHS[name])[1]
    subject = "length" if name in _LENGTHS else "value"
    return Rejection(Reason.CONSTRAINT, f"The {subject} must be {words} {value}.", path)


def _check(name: str, value: Any, type: Any, path: str) -> Check:
    try:
        if name == "pattern":
            return _pattern(re.compile(value))
        if name in _LENGTHS:
            compare, limit = _LENGTHS[name][0], int(value)
            return lambda column: compare(_length(column), limit)
        bound, scalar = _BOUNDS[name][0], _limit(value, type)
        return lambda column: bound(column, scalar)
    except (ValueError, TypeError, re.error, InvalidOperation, pa.ArrowException) as error:
        raise InvalidSchema(f"The constraint {name} cannot be {value!r}: {error}", path=path) from error


def _limit(value: Any, type: Any) -> Any:
    """The bound in a form that compares with the column."""
    if pt.is_timestamp(type):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return pa.scalar(moment, type)
    if pt.is_date(type):
        return pa.scalar(date.fromisoformat(value) if isinstance(value, str) else value, type)
    if pt.is_time(type):
        return pa.scalar(time.fromisoformat(value) if isinstance(value, str) else value, type)
    if pt.is_decimal(type):
        return pa.scalar(Decimal(str(value)))
    if pt.is_string(type):
        return pa.scalar(str(value))
    return pa.scalar(value)


def _length(column: Any) -> Any:
    type = column.type
    if pt.is_string(type):
        return pc.utf8_length(column)
    if pt.is_list(type) or pt.is_map(type):
        bounds = offsets_of(column)
        return pa.array(bounds[1:] - bounds[:-1], mask=column.is_null().to_numpy(zero_copy_only=False))
    return pc.binary_length(column)


def _pattern(pattern: re.Pattern[str]) -> Check:
    """What the fast matcher takes is right; what it does not take, Python's own has the last word on."""

    def check(column: Any) -> Any:
        try:
            right = pc.match_substring_regex(column, pattern.pattern)
        except pa.ArrowInvalid:
            right = pa.array([None if each is None else False for each in column.to_pylist()], pa.bool_())
        doubtful = np.flatnonzero(~right.fill_null(True).to_numpy(zero_copy_only=False))
        if not doubtful.size:
            return right
        found = right.to_numpy(zero_copy_only=False).astype(object)
        for row, text in zip(doubtful.tolist(), column.take(pa.array(doubtful)).to_pylist(), strict=True):
            found[row] = pattern.search(text) is not None
        return pa.array(found, pa.bool_(), from_pandas=True)

    return check
