"""A parsed JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jsonschema_rs

from dragoman.core.errors import InvalidSchema
from dragoman.core.format import ParsedSchema
from dragoman.formats.json.cost import check_cost
from dragoman.formats.json.defaults import Plan, plan_of
from dragoman.formats.json.document import compact, read
from dragoman.formats.json.draft import Draft, draft_of
from dragoman.formats.json.link import Linked, link
from dragoman.formats.json.normal import fingerprint, ordered, referenced
from dragoman.formats.json.validator import check, compiled


@dataclass(frozen=True)
class JsonSchema:
    """A valid schema with its references resolved. ``document`` is the JSON of ``text``; do not change it."""

    text: str
    document: Any
    draft: Draft
    linked: Linked
    validator: jsonschema_rs.Validator

    @property
    def name(self) -> str:
        """The title of the root, as Confluent's clients take it."""
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else ""

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.linked)

    @cached_property
    def defaults(self) -> Plan | None:
        """What a reader with this schema fills in."""
        return plan_of(self.linked)

    def normalised(self, level: int) -> str:
        """Level 1 has no white space. Level 2 also sorts keys, sets (``required``, ``enum``, ``type``) and
        the alternatives of ``allOf``, ``anyOf`` and ``oneOf``."""
        if level < 2:
            return compact(self.document)
        return compact(ordered(self.document, referenced(self.linked, 0)))


def parse(text: str, references: Mapping[str, ParsedSchema] | None = None) -> JsonSchema:
    """Read, check against the draft, resolve references and compile. Raises ``InvalidSchema``."""
    document = read(text)
    if not isinstance(document, dict | bool):
        raise InvalidSchema(
            "A JSON Schema is an object, true or false.", next='Write for example {"type": "object"}.'
        )
    draft = draft_of(document)
    check(document, draft)
    linked = link(document, draft, {name: _own(name, each) for name, each in (references or {}).items()})
    check_cost(linked)
    return JsonSchema(text, document, draft, linked, compiled(linked))


def _own(name: str, schema: ParsedSchema) -> Linked:
    if not isinstance(schema, JsonSchema):
        raise InvalidSchema(
            f"The reference {name!r} is not a JSON Schema.", next="Refer to schemas of the same type."
        )
    return schema.linked
