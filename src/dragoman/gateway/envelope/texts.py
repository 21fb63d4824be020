"""Values as text, by the contract's types: each value has one text, and the text says all of it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from uuid import UUID

from dragoman.schema.binding import fitting
from dragoman.schema.markers import Duration, Primitive, Unit
from dragoman.schema.types import (
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    PrimitiveType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_DURATION = re.compile(r"P([0-9]{1,10})M([0-9]{1,10})DT([0-9]{1,7})\.([0-9]{3})S", re.ASCII)
_PRECISION = {Unit.MILLIS: "milliseconds", Unit.MICROS: "microseconds", Unit.NANOS: "microseconds"}
_DAY = timedelta(days=1)


class Text(NamedTuple):
    """Both raise ``ValueError``, ``TypeError`` or ``AttributeError`` for what does not fit."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def text_of(type: Type) -> Text:
    """How the values of a type that has no parts are written."""
    match type:
        case PrimitiveType():
            return _PRIMITIVES[type.primitive]
        case DecimalType():
            fit = fitting(type)
            return Text(lambda value: format(fit(value), "f"), lambda text: fit(_decimal(text)))
        case DateType() if type.python is date:
            return Text(lambda value: _exact(value, date).isoformat(), date.fromisoformat)
        case TimeType() if type.python is time:
            return _time(_PRECISION[type.unit])
        case TimestampType() if type.python is datetime:
            return _moment(_PRECISION[type.unit], type.local)
        case DateType():
            return _whole(32)
        case TimeType() | TimestampType():
            return _whole(64)
        case UuidType():
            return Text(lambda value: str(_uuid(value)), UUID if type.python is UUID else _uuid_text)
        case DurationType():
            return _DURATIONS if type.python is Duration else _TIMEDELTAS
        case EnumType():
            return _symbol(type)
        case FixedType():
            return _fixed(type.size)
    raise TypeError(f"{type} has parts.")


def _whole(bits: int) -> Text:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def checked(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"It does not fit {bits} bits.")
        return value

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError("A whole number is needed.")
        return checked(int(text))

    return Text(lambda value: str(checked(_exact(value, int))), read)


def _exact(value: Any, cls: type) -> Any:
    if type(value) is not cls:
        raise TypeError(f"{cls.__name__} is needed, not {type(value).__name__}.")
    return value


def _write_number(value: Any) -> str:
    number = float(value)
    for text, special in _SPECIAL.items():
        if number == special or (number != number and text == "NaN"):
            return text
    return repr(number)


def _read_number(text: str) -> float:
    if text in _SPECIAL:
        return _SPECIAL[text]
    if len(text) > 400 or not _NUMBER.fullmatch(text):
        raise ValueError("A number is needed.")
    return float(text)


def _read_truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("true or false is needed.")
    return text == "true"


def _write_bytes(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("Base64 is needed.") from None


def _nothing(_: Any) -> Any:
    raise ValueError("There is no text for nothing.")


def _decimal(text: str) -> Decimal:
    if len(text) > 400 or not _NUMBER.fullmatch(text):
        raise ValueError("A number is needed.")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("A number is needed.") from None


def _time(precision: str) -> Text:
    def read(text: str) -> time:
        found = time.fromisoformat(text)
        if found.tzinfo is not None:
            raise ValueError("A time of the day has no zone.")
        return found

    return Text(lambda value: value.isoformat(timespec=precision), read)


def _moment(precision: str, local: bool) -> Text:
    def write(value: datetime) -> str:
        try:
            if not local:
                value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError:
            raise ValueError("There is no such time in UTC.") from None
        return value.isoformat(timespec=precision)

    def read(text: str) -> datetime:
        found = datetime.fromisoformat(text)
        if local == (found.tzinfo is not None):
            raise ValueError("A local time has no zone." if local else "The zone is missing.")
        try:
            return found if local else found.astimezone(UTC)
        except OverflowError:
            raise ValueError("There is no such time in UTC.") from None

    return Text(write, read)


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _uuid_text(text: str) -> str:
    return str(UUID(text))


def _write_duration(value: Duration) -> str:
    months, days, milliseconds = value
    if not all(0 <= part < 2**32 for part in value):
        raise ValueError("Each part of a duration is from 0 to 2**32 - 1.")
    return f"P{months}M{days}DT{milliseconds // 1000}.{milliseconds % 1000:03}S"


def _read_duration(text: str) -> Duration:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("A duration such as P0M1DT2.500S is needed.")
    months, days, seconds, rest = map(int, found.groups())
    duration = Duration(months, days, seconds * 1000 + rest)
    if not all(part < 2**32 for part in duration):
        raise ValueError("Each part of a duration is below 2**32.")
    return duration


def _write_timedelta(value: timedelta) -> str:
    days, rest = divmod(value, _DAY)
    if rest.microseconds % 1000:
        raise ValueError("A duration has whole milliseconds.")
    return _write_duration(Duration(0, days, rest // timedelta(milliseconds=1)))


def _read_timedelta(text: str) -> timedelta:
    try:
        return _read_duration(text).timedelta()
    except OverflowError:
        raise ValueError("The duration is too long.") from None


def _symbol(type: EnumType) -> Text:
    fallback = type.cls[type.fallback] if type.fallback else None

    def write(value: Any) -> str:
        name: str = _member(value).name
        return name

    def _member(value: Any) -> Any:
        if not isinstance(value, type.cls):
            raise TypeError(f"{type.names.name} is needed.")
        return value

    def read(text: str) -> Any:
        found = type.cls.__members__.get(text, fallback)
        if found is None:
            raise ValueError(f"{type.names.name} has no such member.")
        return found

    return Text(write, read)


def _fixed(size: int) -> Text:
    def sized(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{size} bytes are needed.")
        return value

    return Text(lambda value: _write_bytes(sized(value)), lambda text: sized(_read_bytes(text)))


_PRIMITIVES = {
    Primitive.NULL: Text(_nothing, _nothing),
    Primitive.BOOLEAN: Text(lambda value: "true" if _exact(value, bool) else "false", _read_truth),
    Primitive.INT: _whole(32),
    Primitive.LONG: _whole(64),
    Primitive.FLOAT: Text(_write_number, _read_number),
    Primitive.DOUBLE: Text(_write_number, _read_number),
    Primitive.BYTES: Text(_write_bytes, _read_bytes),
    Primitive.STRING: Text(lambda value: str(_exact(value, str)), str),
}
_DURATIONS = Text(_write_duration, _read_duration)
_TIMEDELTAS = Text(_write_timedelta, _read_timedelta)
