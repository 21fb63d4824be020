"""The drafts of JSON Schema, and which of their keywords hold schemas."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import jsonschema_rs

from dragoman.core.errors import InvalidSchema


class Draft(Enum):
    """A schema without ``$schema`` is of draft 7, as in Confluent's registry."""

    DRAFT4 = "http://json-schema.org/draft-04/schema"
    DRAFT6 = "http://json-schema.org/draft-06/schema"
    DRAFT7 = "http://json-schema.org/draft-07/schema"
    DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
    DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"

    @property
    def uri(self) -> str:
        """As ``$schema`` spells it: the older ones with an empty fragment."""
        return self.value if self.modern else self.value + "#"

    @property
    def modern(self) -> bool:
        """Since 2019-09 keywords beside ``$ref`` count, and formats are annotations only."""
        return self in (Draft.DRAFT2019, Draft.DRAFT2020)

    @property
    def id_keyword(self) -> str:
        return "id" if self is Draft.DRAFT4 else "$id"

    @property
    def references(self) -> tuple[str, ...]:
        match self:
            case Draft.DRAFT2019:
                return ("$ref", "$recursiveRef")
            case Draft.DRAFT2020:
                return ("$ref", "$dynamicRef")
            case _:
                return ("$ref",)

    @property
    def validator(self) -> type[jsonschema_rs.Validator]:
        return _VALIDATORS[self]


_VALIDATORS: dict[Draft, type[jsonschema_rs.Validator]] = {
    Draft.DRAFT4: jsonschema_rs.Draft4Validator,
    Draft.DRAFT6: jsonschema_rs.Draft6Validator,
    Draft.DRAFT7: jsonschema_rs.Draft7Validator,
    Draft.DRAFT2019: jsonschema_rs.Draft201909Validator,
    Draft.DRAFT2020: jsonschema_rs.Draft202012Validator,
}

DEFAULT = Draft.DRAFT7
_LATEST = "http://json-schema.org/schema"


def draft_of(schema: Any, default: Draft = DEFAULT) -> Draft:
    """What ``$schema`` names. Raises ``InvalidSchema`` for a dialect of somebody's own."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if named is None:
        return default
    uri = named.removesuffix("#") if isinstance(named, str) else ""
    if uri == _LATEST:
        return default
    for draft in Draft:
        if uri.partition("://")[2] == draft.value.partition("://")[2]:
            return draft
    raise InvalidSchema(
        f"$schema {named!r} is not a known draft of JSON Schema.",
        next=f"Use one of: {', '.join(draft.uri for draft in Draft)}.",
        pointer="/$schema",
    )


ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema."""
LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose value maps names to schemas."""


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The schemas directly inside another, with the steps that lead there."""
    for keyword, value in schema.items():
        if keyword in ONE and isinstance(value, dict | bool):
            yield (keyword,), value
        elif keyword in LIST and isinstance(value, list):
            for index, each in enumerate(value):
                yield (keyword, index), each
        elif keyword in NAMED and isinstance(value, dict):
            for name, each in value.items():
                if isinstance(each, dict | bool):
                    yield (keyword, name), each


def live_subschemas(schema: dict[str, Any], draft: Draft) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Without those that the draft ignores because they stand beside a reference."""
    ignored = "$ref" in schema and not draft.modern
    for path, inner in subschemas(schema):
        if not ignored or path[0] in ("$defs", "definitions"):
            yield path, inner
