"""What has been seen of the values in one place, added up message by message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dragoman.formats.json.draft import DEFAULT

MAX_DISTINCT = 20
"""So many different strings are remembered; with more it is no enumeration."""

_FORMATS = {
    name: DEFAULT.validator({"format": name}, validate_formats=True) for name in ("date-time", "date")
}
_UUID = DEFAULT.validator(
    {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "maxLength": 36}
)


@dataclass(slots=True)
class Strings:
    count: int = 0
    distinct: set[str] | None = field(default_factory=set)
    formats: set[str] = field(default_factory=lambda: {*_FORMATS, "uuid"})

    def add(self, value: str) -> None:
        self.count += 1
        if self.distinct is not None:
            self.distinct.add(value)
            if len(self.distinct) > MAX_DISTINCT:
                self.distinct = None
        if self.formats:
            self.formats = {name for name in self.formats if _has_format(name, value)}


@dataclass(slots=True)
class Objects:
    count: int = 0
    present: dict[str, int] = field(default_factory=dict)
    properties: dict[str, Shape] = field(default_factory=dict)

    def add(self, value: dict[str, Any]) -> None:
        self.count += 1
        for name, inner in value.items():
            self.present[name] = self.present.get(name, 0) + 1
            self.properties.setdefault(name, Shape()).add(inner)


@dataclass(slots=True)
class Shape:
    """All that was seen in one place. ``items`` adds up the items of all arrays there."""

    nulls: int = 0
    booleans: int = 0
    integers: list[int] = field(default_factory=list)
    """The least and the greatest."""
    floats: int = 0
    strings: Strings = field(default_factory=Strings)
    arrays: int = 0
    items: Shape | None = None
    objects: Objects = field(default_factory=Objects)

    def add(self, value: Any) -> None:
        match value:
            case None:
                self.nulls += 1
            case bool():
                self.booleans += 1
            case int():
                self.integers = (
                    [min(*self.integers, value), max(*self.integers, value)] if self.integers else [value] * 2
                )
            case float():
                self.floats += 1
            case str():
                self.strings.add(value)
            case list():
                self.arrays += 1
                for each in value:
                    self.items = self.items or Shape()
                    self.items.add(each)
            case dict():
                self.objects.add(value)

    def merge(self, other: Shape) -> None:
        """Add what was seen elsewhere, for maps, whose keys are one place."""
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.floats += other.floats
        self.arrays += other.arrays
        for each in other.integers:
            self.add(each)
        self._merge_strings(other.strings)
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)
        self.objects.count += other.objects.count
        for name, inner in other.objects.properties.items():
            self.objects.properties.setdefault(name, Shape()).merge(inner)
            self.objects.present[name] = self.objects.present.get(name, 0) + other.objects.present[name]

    def _merge_strings(self, other: Strings) -> None:
        own = self.strings
        if not other.count:
            return
        own.formats = own.formats & other.formats
        own.count += other.count
        both = None if own.distinct is None or other.distinct is None else own.distinct | other.distinct
        own.distinct = both if both is not None and len(both) <= MAX_DISTINCT else None


def _has_format(name: str, value: str) -> bool:
    validator = _UUID if name == "uuid" else _FORMATS[name]
    return validator.is_valid(value)
