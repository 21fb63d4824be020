"""The record class of a parsed schema, made by its format, or from what the schema describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.core.format import Format, ParsedSchema
from dragoman.registry.code.avro import describe_avro
from dragoman.registry.code.making import class_of
from dragoman.schema.types import RecordType


def record_class(format: Format, schema: ParsedSchema, referenced: Sequence[ParsedSchema] = ()) -> type:
    """A format's package may offer ``record_class`` or ``describe_schema`` for its parsed schemas."""
    make = _offered(format, "record_class")
    if make is not None:
        made: type = make(schema)
        return made
    if format.schema_type == "AVRO":
        return class_of(describe_avro(schema, referenced))
    describe = _offered(format, "describe_schema")
    if describe is None:
        raise InvalidSchema(
            f"No records can be made of {format.schema_type} schemas.", code="schema.not-a-record"
        )
    described: RecordType = describe(schema)
    return class_of(described)


def _offered(format: Format, name: str) -> Callable[[ParsedSchema], Any] | None:
    package = type(format).__module__
    places = [package, package.rpartition(".")[0], f"{package.rpartition('.')[0]}.description"]
    for place in places:
        try:
            found = getattr(import_module(place), name, None)
        except ImportError:
            continue
        if callable(found):
            offered: Callable[[ParsedSchema], Any] = found
            return offered
    return None
