"""A class described without any format: the tree that each format turns into its own schema text.

``dragoman.schema.records.describe`` builds it. Records may contain themselves, so the tree has cycles;
named types are compared by identity, and a class is always described by the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, Literal
from uuid import UUID

from dragoman.schema.markers import Constraint, Duration, Primitive, Unit


class Missing(Enum):
    """Stands for "no default", since ``None`` is one."""

    MISSING = "missing"


MISSING: Literal[Missing.MISSING] = Missing.MISSING


@dataclass(frozen=True, slots=True)
class Names:
    """How a named type is called, and what it was called before.

    Without a namespace it takes that of the record around it, in formats that have namespaces.
    """

    name: str
    namespace: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


_PYTHON: dict[Primitive, type[Any]] = {
    Primitive.NULL: NoneType,
    Primitive.BOOLEAN: bool,
    Primitive.INT: int,
    Primitive.LONG: int,
    Primitive.FLOAT: float,
    Primitive.DOUBLE: float,
    Primitive.BYTES: bytes,
    Primitive.STRING: str,
}


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    primitive: Primitive
    constraints: tuple[Constraint, ...] = ()

    @property
    def python(self) -> type[Any]:
        return _PYTHON[self.primitive]


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Of any length if ``names`` is ``None``, else in ``size`` bytes under that name."""

    precision: int
    scale: int = 0
    size: int | None = None
    names: Names | None = None
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class DateType:
    """``python`` is the type of the values: ``date``, or ``int`` for days since 1970."""

    python: type[Any] = date
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeType:
    """``python`` is ``time``, or ``int`` for units since midnight."""

    unit: Unit = Unit.MICROS
    python: type[Any] = time
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class TimestampType:
    """``python`` is ``datetime``, or ``int`` for units since 1970. ``local`` has no time zone."""

    unit: Unit = Unit.MICROS
    local: bool = False
    python: type[Any] = datetime
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class UuidType:
    """``python`` is ``UUID`` or ``str``. With ``names`` it travels as 16 bytes."""

    python: type[Any] = UUID
    names: Names | None = None


@dataclass(frozen=True, slots=True)
class DurationType:
    """``python`` is ``Duration`` or ``timedelta``."""

    names: Names
    python: type[Any] = Duration


@dataclass(frozen=True, slots=True)
class FixedType:
    names: Names
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class EnumType:
    """The symbols are the members' names. ``fallback`` is what a reader takes for an unknown one."""

    names: Names
    cls: type[Enum]
    fallback: str | None = None

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.cls)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """``python`` is ``list``, ``tuple``, ``set`` or ``frozenset``."""

    items: Type
    python: type[Any] = list
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class MapType:
    """From strings to values."""

    values: Type
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionType:
    """In the order written, but with the default's branch, or null, first where there is a default."""

    branches: tuple[Type, ...]

    @property
    def optional(self) -> bool:
        return any(is_null(branch) for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Field:
    """``name`` is for the schema, ``attribute`` for reading, ``argument`` for the constructor.

    ``default`` is a Python value, as the constructor would set it.
    """

    name: str
    attribute: str
    argument: str
    type: Type
    default: Any = MISSING
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    order: Literal["ascending", "descending", "ignore"] = "ascending"


class Construction(StrEnum):
    """How an instance is made, the fastest way that still runs everything the class defines."""

    ASSIGN = "assign"
    """``cls.__new__(cls)``, then each attribute is set: nothing else would happen in its constructor."""
    POSITIONAL = "positional"
    """``cls(a, b, c)`` in the order of the fields."""
    KEYWORD = "keyword"
    """``cls(a=..., b=...)`` by the fields' arguments."""


@dataclass(slots=True, eq=False)
class RecordType:
    """A record class. ``fields`` are complete once ``describe`` returns; do not change them."""

    names: Names
    cls: type[Any]
    construction: Construction
    fields: Sequence[Field] = ()
    refusals: tuple[type[Exception], ...] = field(default=())
    """What the class' own validation raises, beside ``ValueError`` and ``TypeError``."""
    texts: dict[str, str] = field(default_factory=dict)
    """The class' schema in each format that was asked, by the format's type: written once."""

    @property
    def construct(self) -> Callable[..., Any]:
        """Make an instance from keyword arguments, running the class' own constructor."""
        return self.cls

    def values(self, instance: Any) -> dict[str, Any]:
        """The fields of an instance by their schema names. Slow and simple: codecs read attributes."""
        return {each.name: getattr(instance, each.attribute) for each in self.fields}


Type = (
    PrimitiveType
    | DecimalType
    | DateType
    | TimeType
    | TimestampType
    | UuidType
    | DurationType
    | FixedType
    | EnumType
    | ArrayType
    | MapType
    | UnionType
    | RecordType
)


def is_null(type: Type) -> bool:
    return isinstance(type, PrimitiveType) and type.primitive is Primitive.NULL
