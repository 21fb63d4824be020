"""Well-known messages that are single values in Python: times, durations, decimals, wrappers, JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from math import isinf
from typing import Any, NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MAX_DIGITS = 4000
_LARGEST_FLOAT = (2 - 2**-24) * 2.0**127
_EXACT = Context(prec=_MAX_DIGITS + 2, Emax=10**9, Emin=-(10**9))


def narrow(value: Any) -> Any:
    """A float that must fit 32 bits: a finite one never becomes infinite."""
    if abs(value) > _LARGEST_FLOAT and not isinf(value):
        raise ValueError("The number is too large for 32 bits.")
    return value


def read_timestamp(message: Any) -> datetime:
    """Cut to microseconds, which is all that a ``datetime`` holds."""
    nanos = message.nanos
    if not 0 <= nanos < 10**9:
        raise ValueError("A timestamp has 0 to 999,999,999 nanoseconds.")
    return _EPOCH + timedelta(seconds=message.seconds, microseconds=nanos // 1000)


def write_timestamp(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
    return {"seconds": since // _SECOND, "nanos": since.microseconds * 1000}


def read_nanos(message: Any) -> int:
    """Nanoseconds since 1970."""
    return int(message.seconds * 10**9 + message.nanos)


def write_nanos(value: int) -> dict[str, int]:
    return {"seconds": value // 10**9, "nanos": value % 10**9}


def read_duration(message: Any) -> timedelta:
    nanos = message.nanos
    if not -(10**9) < nanos < 10**9:
        raise ValueError("A duration has less than a second in nanoseconds.")
    return timedelta(seconds=message.seconds, microseconds=int(nanos / 1000))


def write_duration(value: Any) -> Any:
    if not isinstance(value, timedelta):
        return value
    micros = value // timedelta(microseconds=1)
    sign = -1 if micros < 0 else 1
    seconds, rest = divmod(abs(micros), 10**6)
    return {"seconds": sign * seconds, "nanos": sign * rest * 1000}


def read_decimal(message: Any) -> Decimal:
    if len(message.value) > _MAX_DIGITS // 3:
        raise ValueError(f"A decimal of {len(message.value)} bytes is too long.")
    unscaled = int.from_bytes(message.value, "big", signed=True)
    try:
        return _EXACT.scaleb(Decimal(unscaled), -message.scale)
    except InvalidOperation:
        raise ValueError(f"{message.scale} is too large a scale.") from None


def write_decimal(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        return value
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("The decimal is not finite.")
    if len(digits) > _MAX_DIGITS // 2:
        raise ValueError(f"A decimal of {len(digits)} digits is too long.")
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    raw = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return {"value": raw, "precision": len(digits), "scale": -exponent}


def read_date(message: Any) -> date:
    return date(message.year, message.month, message.day)


def write_date(value: Any) -> dict[str, int]:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not a date.")
    return {"year": value.year, "month": value.month, "day": value.day}


def read_time(message: Any) -> time:
    return time(message.hours, message.minutes, message.seconds, message.nanos // 1000)


def write_time(value: time) -> dict[str, int]:
    if value.tzinfo is not None:
        raise ValueError("A time of the day has no time zone.")
    return {
        "hours": value.hour,
        "minutes": value.minute,
        "seconds": value.second,
        "nanos": value.microsecond * 1000,
    }


def read_local(message: Any) -> datetime:
    return datetime(
        message.year, message.month, message.day, message.hours, message.minutes, message.seconds,
        message.nanos // 1000,
    )  # fmt: skip


def write_local(value: datetime) -> dict[str, int]:
    return {**write_date(value.date()), **write_time(value.timetz())}


def write_local_timestamp(value: datetime) -> Any:
    """As if it were in UTC."""
    if value.tzinfo is not None:
        raise ValueError("A local timestamp has no time zone.")
    return write_timestamp(value)


def read_wrapper(message: Any) -> Any:
    return message.value


def write_wrapper(value: Any) -> Any:
    return value if isinstance(value, Mapping) else {"value": value}


def read_json(value: Any) -> Any:
    """A ``google.protobuf.Value``."""
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    if kind == "struct_value":
        return read_struct(value.struct_value)
    if kind == "list_value":
        return read_list(value.list_value)
    return getattr(value, kind)


def read_struct(struct: Any) -> dict[str, Any]:
    return {name: read_json(value) for name, value in struct.fields.items()}


def read_list(values: Any) -> list[Any]:
    return [read_json(value) for value in values.values]


def write_json(value: Any, message: Callable[..., Any]) -> Any:
    match value:
        case None:
            return message(null_value=0)
        case bool():
            return message(bool_value=value)
        case int() | float():
            return message(number_value=float(value))
        case str():
            return message(string_value=value)
    made = message()
    if isinstance(value, Mapping):
        made.struct_value.SetInParent()
        made.struct_value.update(value)
    elif isinstance(value, list | tuple):
        made.list_value.SetInParent()
        made.list_value.extend(value)
    else:
        raise TypeError(f"{type(value).__name__} is not a JSON value.")
    return made


def write_struct(value: Any, message: Callable[..., Any]) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is not a JSON object.")
    made = message()
    made.update(value)
    return made


def write_list(value: Any, message: Callable[..., Any]) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is not a JSON array.")
    made = message()
    made.extend(value)
    return made


class Special(NamedTuple):
    """How a message is read into a single value, and written from it.

    ``write`` gives the fields of the message, or with ``builds`` the message, made by its class.
    """

    read: Callable[[Any], Any]
    write: Callable[..., Any]
    builds: bool = False


_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
SPECIAL: dict[str, Special] = {
    "google.protobuf.Timestamp": Special(read_timestamp, write_timestamp),
    "google.protobuf.Duration": Special(read_duration, write_duration),
    "google.protobuf.Struct": Special(read_struct, write_struct, True),
    "google.protobuf.ListValue": Special(read_list, write_list, True),
    "google.protobuf.Value": Special(read_json, write_json, True),
    "confluent.type.Decimal": Special(read_decimal, write_decimal),
    **{f"google.protobuf.{name}Value": Special(read_wrapper, write_wrapper) for name in _WRAPPERS},
}
"""For plain values. ``google.type.Date`` is not among them: its day may be 0, which no ``date`` can say."""
