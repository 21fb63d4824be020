"""Between the values of a record and the values of a format: conversions that several formats need.

Errors speak of types, not of values: those have no place in logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, NamedTuple
from uuid import UUID

from dragoman.core.errors import ConstraintViolated, MessageError
from dragoman.schema.describing import unwrapped
from dragoman.schema.markers import Unit
from dragoman.schema.types import (
    ArrayType,
    DecimalType,
    EnumType,
    FixedType,
    MapType,
    RecordType,
    Type,
    UnionType,
    is_null,
)

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class Conversion(NamedTuple):
    """The way from a stored value to a record's, and back; ``None`` where they are the same."""

    read: Convert | None = None
    write: Convert | None = None


AS_IT_IS = Conversion()


def branches(type: UnionType) -> list[Type]:
    """All but ``None``."""
    return [branch for branch in type.branches if not is_null(branch)]


def unwrap(type: Type) -> tuple[Type, bool]:
    """The type without ``None``, and whether ``None`` was possible."""
    if isinstance(type, UnionType):
        kept = branches(type)
        return (kept[0] if len(kept) == 1 else UnionType(tuple(kept))), type.optional
    return type, False


def python_type(type: Type) -> Any:
    """The class of the values of a type; ``object`` where there is no single one."""
    match type:
        case RecordType() | EnumType():
            return type.cls
        case DecimalType():
            return Decimal
        case FixedType():
            return bytes
        case ArrayType() | MapType() | UnionType():
            return object
    return type.python


def marks_within(annotation: Any) -> tuple[Any, ...]:
    """Markers of an annotation and, before them, of its parts, as in ``list[Annotated[int, ...]]``."""
    bare, marks = unwrapped(annotation, ())
    inner = [mark for argument in getattr(bare, "__args__", ()) for mark in marks_within(argument)]
    return (*inner, *marks)


def constructor(record: RecordType) -> Callable[..., Any]:
    """The class, with what its own validation raises turned into ``ConstraintViolated``."""
    cls = record.cls
    refusals: tuple[type[Exception], ...] = (ValueError, TypeError, *record.refusals)

    def construct(*arguments: Any, **named: Any) -> Any:
        try:
            return cls(*arguments, **named)
        except MessageError:
            raise
        except refusals as error:
            raise ConstraintViolated(f"{record.names.name} refuses its values: {_told(error)}") from error

    return construct


def _told(error: Exception) -> str:
    """What the class said; pydantic would show the values, too."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors(include_input=False)
    )


def enum_conversion(type: EnumType, numbers: Iterable[tuple[str, int]]) -> Conversion:
    """Between members and the numbers that a schema gives to their names. The first name counts."""
    pairs = [(type.cls[name], number) for name, number in numbers if name in type.symbols][::-1]
    by_number = {number: member for member, number in pairs}
    by_member = dict(pairs)
    fallback = type.cls[type.fallback] if type.fallback else None

    def read(number: int) -> Any:
        member = by_number.get(number, fallback)
        if member is None:
            raise ValueError(f"{type.names.name} has no member for the number.")
        return member

    def write(member: Any) -> int:
        try:
            return by_member[member]
        except (KeyError, TypeError):
            raise ValueError(f"{type.names.name} has no such member in the schema.") from None

    return Conversion(read, write)


def decimal_text(type: DecimalType) -> Conversion:
    """A decimal as text, with exactly the digits behind the point that the type says."""
    fit = fitting(type)
    return Conversion(_read_decimal, lambda value: format(fit(value), "f"))


def fitting(type: DecimalType) -> Callable[[Any], Decimal]:
    """Gives a decimal the scale of its type. Raises ``ValueError`` if that would change its value."""
    smallest = Decimal(1).scaleb(-type.scale)
    # The usual context would end at 28 digits.
    context = Context(prec=type.precision)

    def fit(value: Any) -> Decimal:
        try:
            exact = value.quantize(smallest, context=context)
        except (AttributeError, InvalidOperation):
            raise ValueError(f"Not a finite Decimal of {type.precision} digits.") from None
        if exact != value:
            raise ValueError(f"It does not fit decimal({type.precision}, {type.scale}).")
        return Decimal(exact)

    return fit


def _read_decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError("The text is not a decimal.") from None
    if not value.is_finite():
        raise ValueError("The text is not a finite decimal.")
    return value


DAYS = Conversion(lambda number: _FIRST_DAY + timedelta(days=number), lambda value: (value - _FIRST_DAY).days)
"""A date as days since 1970."""

MICROSECONDS = Conversion(lambda number: timedelta(microseconds=number), lambda value: value // _MICROSECOND)
"""A duration as microseconds."""


def units_of_day(unit: Unit) -> Conversion:
    """A time of the day as units since midnight."""
    per_second = unit.per_second

    def read(number: int) -> time:
        seconds, rest = divmod(number, per_second)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 10**6 // per_second)

    def write(value: time) -> int:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * per_second + value.microsecond * per_second // 10**6

    return Conversion(read, write)


def units_since_1970(unit: Unit, local: bool) -> Conversion:
    epoch = _EPOCH.replace(tzinfo=None) if local else _EPOCH
    per_second = unit.per_second

    def read(number: int) -> datetime:
        return epoch + timedelta(microseconds=number * 10**6 // per_second)

    def write(value: datetime) -> int:
        moment = value if local or value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - epoch) // _MICROSECOND * per_second // 10**6

    return Conversion(read, write)


def uuid_text(python: type) -> Conversion:
    """A UUID as text, in a record that has it as ``UUID`` or ``str``."""
    return AS_IT_IS if python is str else Conversion(UUID, str)


def uuid_bytes(python: type) -> Conversion:
    if python is str:
        return Conversion(lambda raw: str(UUID(bytes=raw)), lambda text: UUID(text).bytes)
    return Conversion(lambda raw: UUID(bytes=raw), lambda value: value.bytes)


def sized(size: int) -> Conversion:
    """Bytes of a fixed size."""

    def check(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes instead of {size}.")
        return value

    return Conversion(check, check)
