"""JSON that people write, encoded under a contract.

JSON has no times, decimals, UUIDs or bytes. Where the schema wants one, the text that stands for it is
converted; the schema's format says by its error which field that is.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from dragoman.core.errors import DecodeError, EncodeError
from dragoman.core.format import Codec

Converter = Callable[[Any], Any]


def encode_json(codec: Codec, value: Any) -> bytes:
    """Encode a JSON value, trying for each refused field what its text may stand for.

    Raises the first ``EncodeError`` of a field that nothing helps, and ``ConstraintViolated``.
    """
    chosen: dict[str, Converter] = {}
    untried: dict[str, list[Converter]] = {}
    refusals: dict[str, EncodeError] = {}
    while True:
        try:
            return _encode(codec, _converted(value, chosen), chosen)
        except EncodeError as error:
            field = error.where.get("field")
            if not isinstance(field, str):
                raise
            first = refusals.setdefault(field, error)
            converter = _next(untried.setdefault(field, list(CONVERTERS)), value, field)
            if converter is None:
                raise first from None
            chosen[field] = converter


def _encode(codec: Codec, value: Any, chosen: dict[str, Converter]) -> bytes:
    """Encode, and see that each converted field comes back as the type it was converted to.

    A codec may take bytes for a decimal, say, since that is how it is written: a text is not meant so.
    """
    encoded = codec.encode(value)
    if chosen:
        try:
            decoded = codec.decode(encoded)
        except DecodeError as error:
            raise EncodeError(error.what, field=error.where.get("field")) from error
        for field in chosen:
            steps = _steps(field)
            if _types(_leaves(value, steps)) != _types(_leaves(decoded, steps)):
                raise EncodeError(f"{field} is not of the schema's type.", field=field)
    return encoded


def _leaves(value: Any, steps: list[str]) -> list[Any]:
    found: list[Any] = []
    _at(value, steps, found.append)
    return found


def _types(values: list[Any]) -> list[type]:
    return [type(value) for value in values]


def _next(untried: list[Converter], value: Any, field: str) -> Converter | None:
    """The next converter that can read what stands there."""
    while untried:
        converter = untried.pop(0)
        try:
            _converted(value, {field: converter})
        except (ValueError, InvalidOperation):
            continue
        return converter
    return None


def _converted(value: Any, chosen: dict[str, Converter]) -> Any:
    for field, converter in chosen.items():
        value = _at(value, _steps(field), converter)
    return value


def _steps(field: str) -> list[str]:
    """``order.lines[].price`` as its steps; ``[]`` stands for every element."""
    return field.replace("[]", ".[]").strip(".").split(".")


def _at(value: Any, steps: list[str], converter: Converter) -> Any:
    if not steps:
        return value if value is None or isinstance(value, list | dict) else converter(value)
    step, rest = steps[0], steps[1:]
    if step == "[]":
        if isinstance(value, list):
            return [_at(each, rest, converter) for each in value]
        if isinstance(value, dict):
            return {name: _at(each, rest, converter) for name, each in value.items()}
        return value
    if isinstance(value, dict) and step in value:
        return {**value, step: _at(value[step], rest, converter)}
    return value


def _text(read: Callable[[str], Any]) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return read(value)
        raise ValueError("Only text can be read.")

    return convert


def _decimal(value: Any) -> Decimal:
    return Decimal(str(value))


CONVERTERS: tuple[Converter, ...] = (
    _text(date.fromisoformat),
    _text(datetime.fromisoformat),
    _text(time.fromisoformat),
    _decimal,
    _text(UUID),
    _text(str.encode),
)
