"""What compiled codecs call when the straight way is not enough: long numbers, odd values, refusals."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from dragoman.schema.markers import Duration


class Unfit(ValueError):
    """The value or the bytes do not fit. Codecs turn it into ``EncodeError`` or ``DecodeError``."""


class Stray(Unfit):
    """A plain value has a key that is no field: written without it, it would be lost."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"it has no field {name!r}")
        self.name = name
        self.known = sorted(known)


class Broken(Exception):
    """The value breaks a constraint. Codecs turn it into ``ConstraintViolated``."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"must be {rule}")


class Refused(Exception):
    """The validation of the class itself said no. It becomes ``ConstraintViolated``, too."""

    def __init__(self, reason: Exception, name: str) -> None:
        super().__init__(f"{name} refuses the values: {_told(reason)}")


def _told(reason: Exception) -> str:
    """What the class said, without the values themselves: they have no place in logs."""
    errors = getattr(reason, "errors", None)
    if not callable(errors):
        return str(reason)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors(include_input=False)
    )


class Metered(bytes):
    """A payload that counts the items it gave out for nothing: items of no bytes have no other limit."""

    spare = 65_536

    def spend(self, items: int) -> None:
        self.spare -= items
        if self.spare < 0:
            raise Unfit("too many items without bytes")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


SMALL = [_varint(number) for number in range(1 << 14)]
"""The bytes of every number below 2**14."""
_MORE = [bytes([(number & 0x7F) | 0x80, (number >> 7) | 0x80]) for number in range(1 << 14)]
"""Fourteen bits each, to be followed by more."""
LENGTH = SMALL[::2]
"""The bytes of every length below 2**13: lengths are never negative, so their lowest bit is 0."""
TRUE, FALSE = b"\x01", b"\x00"
BOOLEANS = (False, True)

DOUBLE = struct.Struct("<d")
FLOAT = struct.Struct("<f")
_DURATION = struct.Struct("<III")

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LOCAL_EPOCH = dt.datetime(1970, 1, 1)
EPOCH_DAY = 719_163
_DAY_MICROS = 86_400_000_000


def wide(number: int) -> bytes:
    """The bytes of a zigzag number of 2**14 or more that is a long."""
    if number < 1 << 28:
        return _MORE[number & 0x3FFF] + SMALL[number >> 14]
    if number < 1 << 42:
        return _MORE[number & 0x3FFF] + _MORE[number >> 14 & 0x3FFF] + SMALL[number >> 28]
    low = _MORE[number & 0x3FFF] + _MORE[number >> 14 & 0x3FFF] + _MORE[number >> 28 & 0x3FFF]
    if number < 1 << 56:
        return low + SMALL[number >> 42]
    if number < 1 << 64:
        return low + _MORE[number >> 42 & 0x3FFF] + SMALL[number >> 56]
    raise Unfit("the number does not fit in 64 bits")


def wide_int(number: int) -> bytes:
    """The same for an int."""
    if number >= 1 << 32:
        raise Unfit("the number does not fit in 32 bits")
    return wide(number)


def more(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a number whose first byte says that it goes on: the zigzag number and the next place."""
    byte = data[at]
    if byte < 128:
        return first & 127 | byte << 7, at + 1
    number = first & 127 | (byte & 127) << 7
    second = data[at + 1]
    if second < 128:
        return number | second << 14, at + 2
    number |= (second & 127) << 14
    at += 2
    shift = 21
    while True:
        byte = data[at]
        at += 1
        if byte < 128:
            number |= byte << shift
            if number >> 64:
                break
            return number, at
        number |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            break
    raise Unfit("a number of more than 64 bits")


def more_int(data: bytes, at: int, first: int) -> tuple[int, int]:
    number, at = more(data, at, first)
    if number >> 32:
        raise Unfit("a number of more than 32 bits")
    return number, at


def span(data: bytes, at: int) -> tuple[int, int]:
    """From where to where a text goes whose length is long, or wrong."""
    first = data[at]
    at += 1
    number = first
    if first > 127:
        number, at = more(data, at, first)
    if number & 1:
        raise Unfit("a negative length")
    end = at + (number >> 1)
    if end > len(data):
        raise Unfit("a length beyond the end")
    return at, end


def block(data: bytes, at: int, number: int, size: int) -> tuple[int, int]:
    """How many items follow, at least ``size`` bytes each, and where they start."""
    if number > 127:
        number, at = more(data, at, number)
    if number & 1:
        count = (number + 1) >> 1
        number = data[at]
        at += 1
        if number > 127:
            number, at = more(data, at, number)
        if number & 1 or number >> 1 > len(data) - at:
            raise Unfit("a block size beyond the end")
    else:
        count = number >> 1
    if size and count * size > len(data) - at:
        raise Unfit("more items than bytes")
    return count, at


def free_block(data: Metered, at: int, number: int) -> tuple[int, int]:
    """The same where items may have no bytes at all."""
    count, at = block(data, at, number, 0)
    data.spend(count)
    return count, at


def real(value: Any) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(value)
    raise Unfit(f"{type(value).__name__} is not a number")


def sequence(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return value
    raise Unfit(f"{type(value).__name__} is not a list")


def mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    raise Unfit(f"{type(value).__name__} is not a mapping")


def no_field(value: Mapping[Any, Any], names: frozenset[str]) -> None:
    raise Stray(min(str(name) for name in value if name not in names), names)


def octets(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Unfit(f"{type(value).__name__} is not bytes")


def exactly(value: Any, size: int) -> bytes:
    data = octets(value)
    if len(data) != size:
        raise Unfit(f"{len(data)} bytes where {size} are wanted")
    return data


def boolean(value: Any) -> bytes:
    raise Unfit(f"{type(value).__name__} is neither True nor False")


def no_number(value: Any) -> None:
    raise Unfit(f"{type(value).__name__} is not a number")


def null(value: Any) -> bytes:
    raise Unfit(f"{type(value).__name__} is not None")


def instance(value: Any, cls: type) -> None:
    if not isinstance(value, cls):
        raise Unfit(f"{type(value).__name__} is not {cls.__name__}")


def no_branch(value: Any) -> bytes:
    raise Unfit(f"no branch of the union takes a {type(value).__name__}")


def day(value: Any) -> int:
    if type(value) is dt.date:
        return value.toordinal() - EPOCH_DAY
    raise Unfit(f"{type(value).__name__} is not a date")


def micros_of_day(value: Any) -> int:
    if not isinstance(value, dt.time):
        raise Unfit(f"{type(value).__name__} is not a time")
    if value.tzinfo is not None:
        raise Unfit("a time of the day has no time zone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def time_of(micros: int) -> dt.time:
    if not 0 <= micros < _DAY_MICROS:
        raise Unfit("a time beyond the day")
    seconds, micros = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return dt.time(minutes // 60, minutes % 60, second, micros)


def micros_since(value: Any, epoch: dt.datetime) -> int:
    """Microseconds since the epoch. A point in time needs a time zone, a local time has none."""
    if not isinstance(value, dt.datetime):
        raise Unfit(f"{type(value).__name__} is not a datetime")
    if (value.tzinfo is None) is not (epoch.tzinfo is None):
        wanted = "no time zone" if epoch.tzinfo is None else "a time zone, such as datetime.now(UTC)"
        raise Unfit(f"the datetime needs {wanted}")
    past = value - epoch
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def unscaled(value: Any, precision: int, scale: int) -> int:
    """A decimal without its point, exactly."""
    if not isinstance(value, Decimal):
        raise Unfit(f"{type(value).__name__} is not a Decimal")
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Unfit("not a finite number")
    number = int("".join(map(str, digits)))
    shift = exponent + scale
    if shift < 0:
        number, rest = divmod(number, 10**-shift) if shift > -10_000 else (0, number)
        if rest:
            raise Unfit(f"more than {scale} digits behind the point")
    elif number:
        if shift > precision:
            raise Unfit(f"more than {precision} digits")
        number *= 10**shift
    if number >= 10**precision:
        raise Unfit(f"more than {precision} digits")
    return -number if sign else number


def decimal_bytes(value: Any, precision: int, scale: int) -> bytes:
    number = unscaled(value, precision, scale)
    size = (abs(number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)


def decimal_fixed(value: Any, precision: int, scale: int, size: int) -> bytes:
    return unscaled(value, precision, scale).to_bytes(size, "big", signed=True)


def decimal_of(data: bytes, precision: int, scale: int) -> Decimal:
    # Every digit needs less than half a byte; some writers pad with a few more.
    if len(data) > precision // 2 + 17:
        raise Unfit(f"more bytes than a decimal of {precision} digits needs")
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**precision:
        raise Unfit(f"more than {precision} digits")
    return Decimal(f"{number}E-{scale}")


def uuid_text(value: Any) -> bytes:
    if isinstance(value, UUID):
        return str(value).encode()
    raise Unfit(f"{type(value).__name__} is not a UUID")


def uuid_bytes(value: Any) -> bytes:
    if isinstance(value, UUID):
        return value.bytes
    raise Unfit(f"{type(value).__name__} is not a UUID")


def text_of_uuid(value: Any) -> bytes:
    """A UUID that the class keeps as text."""
    return uuid_text(UUID(value)) if isinstance(value, str) else uuid_text(value)


def uuid_str(text: str) -> str:
    return str(UUID(text))


def duration_bytes(value: Any) -> bytes:
    if isinstance(value, dt.timedelta):
        millis, rest = divmod(value.seconds * 1_000_000 + value.microseconds, 1000)
        if rest:
            raise Unfit("a duration has no microseconds")
        value = Duration(0, value.days, millis)
    if not isinstance(value, Duration):
        raise Unfit(f"{type(value).__name__} is not a duration")
    return _DURATION.pack(*value)


def duration_of(data: bytes) -> Duration:
    return Duration(*_DURATION.unpack(data))
