"""Rows told apart by key columns, null being a value like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def without(rows: Any, gone: Any, keys: Sequence[str]) -> Any:
    """The rows of an Arrow table whose keys are in none of the rows of ``gone``."""
    dropped = set(_tuples(gone, keys))
    return rows.filter(pa.array([found not in dropped for found in _tuples(rows, keys)], pa.bool_()))


def _tuples(rows: Any, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[key].to_pylist() for key in keys), strict=True))
