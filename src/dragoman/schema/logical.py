"""The logical types of Avro: what the bytes of a type mean, where that is more than the type.

The codecs and the columns of the pipeline both ask here, so that a value is the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_PRECISION = 4_000
"""Python turns longer numbers into text only on request."""

_ALLOWED_ON = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
}
_KINDS = {
    name: name.removeprefix("local-").partition("-")[0]
    for name, on in _ALLOWED_ON.items()
    if not {"int", "long"}.isdisjoint(on)
}
_SIZES = {"uuid": 16, "duration": 12}


@dataclass(frozen=True, slots=True)
class Logical:
    """``precision`` and ``scale`` are decimal's."""

    name: str
    precision: int = 0
    scale: int = 0


def logical_of(content: Mapping[str, Any], kind: str, size: int = 0) -> Logical | None:
    """The logical type that a type's object in a schema states; ``size`` is that of a ``fixed``.

    One that is unknown, or does not fit, is ignored: so the specification wants it.
    """
    name = content.get("logicalType")
    if not isinstance(name, str) or kind not in _ALLOWED_ON.get(name, ()):
        return None
    if kind == "fixed" and size != _SIZES.get(name, size):
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = _whole(content.get("precision")), _whole(content.get("scale", 0))
    if not 0 <= scale <= precision or not 1 <= precision <= MAX_PRECISION:
        return None
    if kind == "fixed" and 10**precision > 1 << (8 * size - 1):
        return None
    return Logical(name, precision, scale)


def same_kind(writer: Logical | None, reader: Logical | None) -> bool:
    """Whether a value of the one logical type is one of the other, in another unit at most.

    A day, a time of day and a moment are all numbers, and none of them is another. A number without a
    logical type may be any of them.
    """
    if writer is None or reader is None:
        return True
    kinds = _KINDS.get(writer.name), _KINDS.get(reader.name)
    return None in kinds or kinds[0] == kinds[1]


def _whole(number: Any) -> int:
    return number if type(number) is int else -1
