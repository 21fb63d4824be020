"""Proposes a schema for messages that have none. Every message it has seen is valid under it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from dragoman.core.errors import DecodeError, InvalidSchema
from dragoman.formats.json.document import compact
from dragoman.formats.json.draft import DEFAULT
from dragoman.formats.json.inference.shape import Objects, Shape, Strings
from dragoman.formats.json.schema_of import LONG


@dataclass(frozen=True, slots=True)
class Guesses:
    """When a regularity is taken for a rule."""

    closed: bool = True
    """Other properties than those seen are refused, so that properties can be added later."""
    enum_values: int = 8
    """Strings with two different values or more, but not more than this, are an enumeration ..."""
    enum_repeats: int = 10
    """... if each was seen so often, on average."""
    map_keys: int = 30
    """An object with more different keys than this is a map ..."""
    map_presence: float = 0.2
    """... if they are in no more than this share of the objects, on average."""


def infer(documents: Iterable[Any], name: str = "Record", guesses: Guesses | None = None) -> str:
    """A schema text of draft 7 for messages, given as bytes or as parsed JSON.

    ``describe_schema`` takes it on to a record class, or to another format. Raises ``DecodeError`` for a
    message that is not JSON, ``InvalidSchema`` if there are none.
    """
    shape, seen = Shape(), 0
    for document in documents:
        seen += 1
        shape.add(_parsed(document, seen))
    if not seen:
        raise InvalidSchema("There are no messages to infer a schema from.", next="Give it at least one.")
    schema = _Proposal(guesses or Guesses()).schema(shape)
    return compact({"$schema": DEFAULT.uri, "title": name, **schema})


def _parsed(document: Any, number: int) -> Any:
    if not isinstance(document, bytes | bytearray | memoryview):
        return document
    try:
        return msgspec.json.decode(document)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(
            "A message is not JSON.", next="Leave it out, or land it in quarantine.", number=number
        ) from error


class _Proposal:
    def __init__(self, guesses: Guesses) -> None:
        self._guesses = guesses

    def schema(self, shape: Shape) -> dict[str, Any]:
        found = self._alternatives(shape)
        if len(found) == 1:
            return found[0]
        return {"anyOf": found} if found else {}

    def _alternatives(self, shape: Shape) -> list[dict[str, Any]]:
        """One schema for each JSON type that was seen, null first."""
        found: list[dict[str, Any]] = []
        if shape.nulls:
            found.append({"type": "null"})
        if shape.booleans:
            found.append({"type": "boolean"})
        if shape.floats:
            found.append({"type": "number"})
        elif shape.integers:
            found.append(_integer(*shape.integers))
        if shape.strings.count:
            found.append(self._string(shape.strings))
        if shape.arrays:
            items = {} if shape.items is None else {"items": self.schema(shape.items)}
            found.append({"type": "array", **items})
        if shape.objects.count:
            found.append(self._object(shape.objects))
        return found

    def _string(self, strings: Strings) -> dict[str, Any]:
        for name in ("date-time", "date", "uuid"):
            if name in strings.formats:
                return {"type": "string", "format": name}
        distinct = strings.distinct
        if distinct is not None and 2 <= len(distinct) <= self._guesses.enum_values:
            often = strings.count >= self._guesses.enum_repeats * len(distinct)
            if often and all(each.isidentifier() for each in distinct):
                return {"type": "string", "enum": sorted(distinct)}
        return {"type": "string"}

    def _object(self, objects: Objects) -> dict[str, Any]:
        if self._is_map(objects):
            values = Shape()
            for each in objects.properties.values():
                values.merge(each)
            return {"type": "object", "additionalProperties": self.schema(values)}
        required = [name for name, count in objects.present.items() if count == objects.count]
        return {
            "type": "object",
            "properties": {name: self.schema(each) for name, each in objects.properties.items()},
            **({"required": required} if required else {}),
            **({"additionalProperties": False} if self._guesses.closed else {}),
        }

    def _is_map(self, objects: Objects) -> bool:
        keys = len(objects.present)
        if keys <= self._guesses.map_keys:
            return False
        return sum(objects.present.values()) <= keys * objects.count * self._guesses.map_presence


def _integer(least: int, most: int) -> dict[str, Any]:
    """64 bits, unless more was seen: what is small today may grow."""
    fits = LONG["minimum"] <= least and most <= LONG["maximum"]
    return dict(LONG) if fits else {"type": "integer"}
