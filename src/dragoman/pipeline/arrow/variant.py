"""Python values as Spark's VARIANT: a dictionary of the key names, and the value that refers to it."""

from __future__ import annotations

import base64
import json
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from dragoman.schema.markers import Duration

VARIANT_TYPE = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_VERSION = 1
_NULL, _TRUE, _FALSE, _INT64, _DOUBLE, _STRING = 0, 1, 2, 6, 7, 16
_SHORT_STRING = 63


def to_json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def to_variant(value: Any) -> dict[str, bytes]:
    """The two parts of a VARIANT. Values without a JSON form are text, as in ``to_json``."""
    plain = _plain(value)
    keys = sorted(_keys(plain, set()))
    ids = {key: number for number, key in enumerate(keys)}
    return {"value": _value(plain, ids), "metadata": _metadata(keys)}


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return str(value)


def from_plain(plain: Any, kind: str, logical: str | None) -> Any:
    """The value of an Avro type that has this JSON form. Raises what Python raises for other texts.

    JSON of another type than the form's is left as it is: the codec judges it.
    """
    match plain, logical or kind:
        case str(), "date":
            return date.fromisoformat(plain)
        case str(), "time-millis" | "time-micros":
            return time.fromisoformat(plain)
        case str(), name if "timestamp" in name:
            return datetime.fromisoformat(plain)
        case str(), "decimal":
            return Decimal(plain)
        case str(), "uuid":
            return UUID(plain)
        case str(), "bytes" | "fixed":
            return base64.b64decode(plain, validate=True)
        case list(), "duration":
            return Duration(*plain)
        case _:
            return plain


def _keys(value: Any, found: set[str]) -> set[str]:
    if isinstance(value, dict):
        found.update(value)
        for each in value.values():
            _keys(each, found)
    elif isinstance(value, list):
        for each in value:
            _keys(each, found)
    return found


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _numbers(numbers: list[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _metadata(keys: list[str]) -> bytes:
    names = [key.encode() for key in keys]
    offsets = [0]
    for name in names:
        offsets.append(offsets[-1] + len(name))
    width = _width(max(offsets[-1], len(names)))
    sorted_strings = 1 << 4
    header = _VERSION | sorted_strings | (width - 1) << 6
    return bytes([header]) + _numbers([len(names)], width) + _numbers(offsets, width) + b"".join(names)


def _value(value: Any, ids: dict[str, int]) -> bytes:
    match value:
        case None:
            return bytes([_NULL << 2])
        case bool():
            return bytes([(_TRUE if value else _FALSE) << 2])
        case int() if -(2**63) <= value < 2**63:
            return bytes([_INT64 << 2]) + struct.pack("<q", value)
        case float():
            return bytes([_DOUBLE << 2]) + struct.pack("<d", value)
        case dict():
            return _object(value, ids)
        case list():
            return _array([_value(each, ids) for each in value])
        case _:
            return _string(str(value).encode())


def _string(raw: bytes) -> bytes:
    if len(raw) <= _SHORT_STRING:
        return bytes([len(raw) << 2 | 1]) + raw
    return bytes([_STRING << 2]) + len(raw).to_bytes(4, "little") + raw


def _object(value: dict[str, Any], ids: dict[str, int]) -> bytes:
    names = sorted(value)
    cells = [_value(value[name], ids) for name in names]
    offsets = _offsets(cells)
    id_width, width = _width(max((ids[name] for name in names), default=0)), _width(offsets[-1])
    large = len(names) > 255
    header = (width - 1) | (id_width - 1) << 2 | large << 4
    count = len(names).to_bytes(4 if large else 1, "little")
    numbers = _numbers([ids[name] for name in names], id_width) + _numbers(offsets, width)
    return bytes([header << 2 | 2]) + count + numbers + b"".join(cells)


def _array(cells: list[bytes]) -> bytes:
    offsets = _offsets(cells)
    width = _width(offsets[-1])
    large = len(cells) > 255
    header = (width - 1) | large << 2
    count = len(cells).to_bytes(4 if large else 1, "little")
    return bytes([header << 2 | 3]) + count + _numbers(offsets, width) + b"".join(cells)


def _offsets(cells: list[bytes]) -> list[int]:
    offsets = [0]
    for cell in cells:
        offsets.append(offsets[-1] + len(cell))
    return offsets
