"""What an annotation alone cannot say, written in ``Annotated[...]``.

amount: Annotated[Decimal, decimal(10, 2), Min(0)]
created: Annotated[datetime, timestamp(Unit.MILLIS), Doc("When the order came in.")]
count: Int
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date as _date
from datetime import datetime, time, timedelta
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple


class Primitive(StrEnum):
    """The types that need no description. ``int`` has 32 bits, ``long`` 64, ``float`` 32, ``double`` 64."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


class Unit(StrEnum):
    """The precision of a time. Python's own types end at microseconds: see ``timestamp``."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"

    @property
    def per_second(self) -> int:
        return {"millis": 10**3, "micros": 10**6, "nanos": 10**9}[self.value]


class Duration(NamedTuple):
    """A calendar duration: months, days and milliseconds are independent, each below 2**32."""

    months: int = 0
    days: int = 0
    milliseconds: int = 0

    def timedelta(self) -> timedelta:
        """As elapsed time. Only possible without months, which have no fixed length."""
        if self.months:
            raise ValueError("A duration with months has no fixed length.")
        return timedelta(days=self.days, milliseconds=self.milliseconds)


@dataclass(frozen=True, slots=True)
class Doc:
    """What the field means."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """The field's name in the schema, where it differs from the attribute's."""

    name: str


@dataclass(frozen=True, slots=True, init=False)
class Aliases:
    """Former names of the field, under which older writers still send it."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Order:
    """How the field counts when records are sorted."""

    order: Literal["ascending", "descending", "ignore"]


@dataclass(frozen=True, slots=True)
class Fallback:
    """The member that a reader takes for an enum symbol it does not know."""

    member: Enum


@dataclass(frozen=True, slots=True)
class Width:
    """Which primitive an ``int`` or ``float`` is."""

    primitive: Primitive


Int = Annotated[int, Width(Primitive.INT)]
Long = Annotated[int, Width(Primitive.LONG)]
Float = Annotated[float, Width(Primitive.FLOAT)]
Double = Annotated[float, Width(Primitive.DOUBLE)]


@dataclass(frozen=True, slots=True)
class decimal:
    """A ``Decimal`` of so many digits, ``scale`` of them behind the point; in ``size`` bytes, if given."""

    precision: int
    scale: int = 0
    size: int | None = None
    name: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class fixed:
    """``bytes`` of exactly this size. Without a name the field's is used."""

    size: int
    name: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class timestamp:
    """A ``datetime`` in UTC, or without a zone if ``local``.

    On an ``int`` the value is the bare number of units since 1970. That is the way to keep nanoseconds: a
    ``datetime`` read from them is cut to microseconds.
    """

    unit: Unit = Unit.MICROS
    local: bool = False


@dataclass(frozen=True, slots=True)
class timeofday:
    """A ``time`` of the day, in milliseconds or microseconds; on an ``int`` the bare number of units."""

    unit: Unit = Unit.MICROS


@dataclass(frozen=True, slots=True)
class date:
    """Marks an ``int`` as days since 1970. A ``datetime.date`` needs no marker."""


@dataclass(frozen=True, slots=True)
class uuid:
    """Marks a ``str`` as a UUID, or with ``binary`` a ``UUID`` as one of 16 bytes."""

    binary: bool = False
    name: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class duration:
    """Names the 12 bytes of a ``timedelta`` or ``Duration``."""

    name: str | None = None
    namespace: str = ""


TimestampMillis = Annotated[datetime, timestamp(Unit.MILLIS)]
TimestampMicros = Annotated[datetime, timestamp(Unit.MICROS)]
TimestampNanos = Annotated[datetime, timestamp(Unit.NANOS)]
LocalTimestampMillis = Annotated[datetime, timestamp(Unit.MILLIS, local=True)]
LocalTimestampMicros = Annotated[datetime, timestamp(Unit.MICROS, local=True)]
LocalTimestampNanos = Annotated[datetime, timestamp(Unit.NANOS, local=True)]
TimeMillis = Annotated[time, timeofday(Unit.MILLIS)]
TimeMicros = Annotated[time, timeofday(Unit.MICROS)]
Date = _date


@dataclass(frozen=True, slots=True)
class Min:
    """Not below ``value``; with ``exclusive`` above it."""

    value: Any
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Max:
    """Not above ``value``; with ``exclusive`` below it."""

    value: Any
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Length:
    """How many characters, bytes, items or entries."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression found somewhere in the text, as in JSON Schema: anchor it with ``^`` and ``$``."""

    regex: str


Constraint = Min | Max | Length | Pattern
