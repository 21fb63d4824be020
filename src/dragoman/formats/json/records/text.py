"""Values that JSON has no type for, as text and back. Each function raises ``Misfit``."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from uuid import UUID

from dragoman.formats.json.records.misfit import Misfit
from dragoman.schema.markers import Duration, Unit

DURATION = r"^P(?:\d+M)?(?:\d+D)?(?:T\d+(?:\.\d{1,6})?S)?$"
LOCAL_TIME = r"^\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?$"
LOCAL_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?$"
_DURATION = re.compile(r"P(?:(\d{1,10})M)?(?:(\d{1,10})D)?(?:T(\d{1,12})(?:\.(\d{1,6}))?S)?", re.ASCII)
_PRECISION = {Unit.MILLIS: "milliseconds", Unit.MICROS: "microseconds", Unit.NANOS: "microseconds"}


def bytes_to_text(value: bytes) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise Misfit("These are not bytes.")
    return base64.b64encode(value).decode("ascii")


def bytes_from_text(text: object) -> bytes:
    try:
        return base64.b64decode(_text(text), validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("This is not base64.") from None


def decimal_to_text(value: Decimal, precision: int, scale: int) -> str:
    """With all digits of the scale, and none lost."""
    if not isinstance(value, Decimal) or not value.is_finite():
        raise Misfit("This is not a finite Decimal.")
    try:
        exact = value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision + 1))
    except InvalidOperation:
        exact = None
    if exact is None or exact != value or len(exact.as_tuple().digits) > precision:
        raise Misfit(f"The number does not fit decimal({precision}, {scale}).")
    return format(exact, "f")


def decimal_from_text(value: object, precision: int, scale: int) -> Decimal:
    """From the string that we write, or a number as others do."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Misfit("This is not a decimal number.")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise Misfit("This is not a decimal number.") from None
    return Decimal(decimal_to_text(number, precision, scale))


def timestamp_to_text(value: datetime, unit: Unit, local: bool) -> str:
    if not isinstance(value, datetime):
        raise Misfit("This is not a datetime.")
    precision = _PRECISION[unit]
    if local:
        if value.tzinfo is not None:
            raise Misfit("A local timestamp has no time zone.")
        return value.isoformat(timespec=precision)
    if value.tzinfo is None:
        raise Misfit("The datetime has no time zone; use one, such as datetime.UTC.")
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
    except OverflowError:
        raise Misfit("The datetime is out of range in UTC.") from None


def timestamp_from_text(text: object, local: bool) -> datetime:
    try:
        value = datetime.fromisoformat(_text(text))
        if local == (value.tzinfo is None):
            return value if local else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Misfit("This is not a timestamp.") from None
    raise Misfit("A time zone is missing." if not local else "A local timestamp has no time zone.")


def date_to_text(value: date) -> str:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Misfit("This is not a date.")
    return value.isoformat()


def date_from_text(text: object) -> date:
    try:
        return date.fromisoformat(_text(text))
    except ValueError:
        raise Misfit("This is not a date.") from None


def time_to_text(value: time, unit: Unit) -> str:
    if not isinstance(value, time) or value.tzinfo is not None:
        raise Misfit("This is not a time without a zone.")
    return value.isoformat(timespec=_PRECISION[unit])


def time_from_text(text: object) -> time:
    try:
        value = time.fromisoformat(_text(text))
    except ValueError:
        raise Misfit("This is not a time.") from None
    if value.tzinfo is not None:
        raise Misfit("A time of the day has no zone.")
    return value


def uuid_to_text(value: UUID) -> str:
    if not isinstance(value, UUID):
        raise Misfit("This is not a UUID.")
    return str(value)


def uuid_from_text(text: object) -> UUID:
    try:
        return UUID(_text(text))
    except ValueError:
        raise Misfit("This is not a UUID.") from None


def duration_to_text(value: Duration | timedelta) -> str:
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise Misfit("A duration is not negative.")
        months, days, rest = 0, value.days, value.seconds * 10**6 + value.microseconds
    elif isinstance(value, Duration) and min(value) >= 0:
        months, days, rest = value.months, value.days, value.milliseconds * 1000
    else:
        raise Misfit("This is not a duration.")
    seconds, micros = divmod(rest, 10**6)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"P{months}M{days}DT{seconds}{fraction}S"


def duration_from_text(text: object) -> Duration:
    return Duration(*_duration(text)[:2], _duration(text)[2] // 1000)


def timedelta_from_text(text: object) -> timedelta:
    months, days, micros = _duration(text)
    if months:
        raise Misfit("A duration with months has no fixed length.")
    try:
        return timedelta(days=days, microseconds=micros)
    except OverflowError:
        raise Misfit("The duration is out of range.") from None


def _duration(text: object) -> tuple[int, int, int]:
    found = _DURATION.fullmatch(_text(text))
    if found is None:
        raise Misfit("This is not a duration.")
    months, days, seconds, fraction = found.groups()
    micros = int((fraction or "").ljust(6, "0"))
    return int(months or 0), int(days or 0), int(seconds or 0) * 10**6 + micros


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Misfit("This is not a string.")
    return value
