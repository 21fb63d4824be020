"""A profile of columns: how many, how many null, from where to where, how many different."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

DISTINCT_LIMIT = 1_000


@dataclass(slots=True)
class ColumnProfile:
    """``values`` are the different ones seen, ``None`` once they are more than ``DISTINCT_LIMIT``."""

    count: int = 0
    nulls: int = 0
    least: Any = None
    most: Any = None
    values: set[Any] | None = field(default_factory=set)

    def add(self, column: Any) -> None:
        self.count += len(column)
        self.nulls += column.null_count
        if not _ordered(column.type):
            self.values = None
            return
        ends = pc.min_max(column).as_py()
        self._widen(ends["min"], ends["max"])
        if self.values is not None:
            self._collect(set(column.unique().drop_null()[: DISTINCT_LIMIT + 1].to_pylist()))

    def merge(self, other: ColumnProfile) -> None:
        self.count += other.count
        self.nulls += other.nulls
        self._widen(other.least, other.most)
        if other.values is None:
            self.values = None
        elif self.values is not None:
            self._collect(other.values)

    @property
    def distinct(self) -> str:
        """Empty for values that are not counted, such as lists and structs."""
        if self.values is not None:
            return str(len(self.values))
        return "" if self.least is None else f"over {DISTINCT_LIMIT}"

    def _widen(self, least: Any, most: Any) -> None:
        if least is not None:
            self.least = least if self.least is None else min(self.least, least)
        if most is not None:
            self.most = most if self.most is None else max(self.most, most)

    def _collect(self, values: set[Any]) -> None:
        joined = values if self.values is None else self.values | values
        self.values = joined if len(joined) <= DISTINCT_LIMIT else None


PROFILED = ("field", "values", "nulls", "least", "most", "distinct")


@dataclass(slots=True)
class Profile:
    columns: dict[str, ColumnProfile] = field(default_factory=dict)

    def rows(self) -> list[tuple[Any, ...]]:
        """A row for each field, with what ``PROFILED`` says."""
        return [
            (name, found.count, found.nulls, found.least, found.most, found.distinct)
            for name, found in self.columns.items()
        ]

    def add(self, values: Any) -> None:
        """A struct array of decoded rows; rows that are null as a whole are not counted."""
        rows = values.drop_null() if values.null_count else values
        for index in range(rows.type.num_fields):
            name = rows.type.field(index).name
            self.columns.setdefault(name, ColumnProfile()).add(rows.field(index))

    def merge(self, other: Profile) -> None:
        for name, found in other.columns.items():
            self.columns.setdefault(name, ColumnProfile()).merge(found)


def _ordered(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_temporal,
             pa.types.is_decimal, pa.types.is_boolean)  # fmt: skip
    return any(test(kind) for test in tests)
