"""Content headers that the driver cannot decode.

Any program may publish to our streams. If the driver cannot decode a header frame, it gives up the
connection. A timestamp in microseconds is enough, or a header's name in Latin-1. The message would come again
after each reconnection, and its partition would never go on. So such a frame is decoded here. What makes no
sense in it is left out or replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from struct import Struct
from typing import Any

from pamqp import decode
from pamqp.commands import Basic
from pamqp.header import ContentHeader

_START = Struct(">HHQ")
_FLAGS = Struct(">H")
_LENGTH = Struct(">I")
_NUMBER = Struct(">Q")
_DEEPEST = 32
"""Tables and lists further inside are left out. The driver would run out of stack."""


class _Reading:
    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.depth = 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.take(self.take(1)[0]).decode(errors="replace")

    def moment(self) -> Any:
        """A time, or the number that it was sent as."""
        raw = self.take(_NUMBER.size)
        with contextlib.suppress(ValueError, OverflowError, OSError):
            return decode.timestamp(raw)[1]
        return _NUMBER.unpack(raw)[0]

    def table(self) -> dict[str, Any]:
        found = {}
        for _ in self.entries():
            name = self.text()
            found[name] = self.value()
        return found

    def array(self) -> list[Any]:
        return [self.value() for _ in self.entries()]

    def entries(self) -> Iterator[None]:
        """One for each entry of the table or list that begins here."""
        end = _LENGTH.unpack(self.take(_LENGTH.size))[0] + self.at
        self.depth += 1
        if self.depth > _DEEPEST:
            self.at = end
        while self.at < end:
            yield
        self.depth -= 1

    def property(self, kind: str) -> Any:
        match kind:
            case "table":
                return self.table()
            case "timestamp":
                return self.moment()
            case "octet":
                return self.take(1)[0]
        return self.text()

    def value(self) -> Any:
        kind = self.take(1)
        match kind:
            case b"F":
                return self.table()
            case b"A":
                return self.array()
            case b"T":
                return self.moment()
        size, found = decode.TABLE_MAPPING[kind](self.data[self.at :])
        self.at += size
        return found


def properties_of(data: bytes) -> Basic.Properties:
    """The properties in a content header. Raises an error for bytes that are none."""
    found = Basic.Properties()
    reading = _Reading(data, _START.size + _FLAGS.size)
    (flags,) = _FLAGS.unpack_from(data, _START.size)
    for name in Basic.Properties.attributes():
        if not flags & Basic.Properties.flags[name]:
            continue
        value = reading.property(getattr(Basic.Properties, f"_{name}"))
        if name != "timestamp" or not isinstance(value, int):
            setattr(found, name, value)
    return found


def _unmarshal(self: ContentHeader, data: bytes) -> None:
    try:
        _strictly(self, data)
    except (ValueError, RecursionError):
        self.class_id, self.weight, self.body_size = _START.unpack_from(data)
        self.properties = properties_of(data)


_strictly = ContentHeader.unmarshal


def install() -> None:
    """Have the driver decode what it would give up the connection for. Doing it again changes nothing."""
    ContentHeader.unmarshal = _unmarshal  # type: ignore[method-assign]
