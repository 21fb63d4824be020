"""Compiled validation, offline, with regular expressions that cannot hang.

Patterns run on an engine that takes linear time; those with look-around or back-references run on a
backtracking one that gives up, and says no, after a fixed number of steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonschema_rs

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.document import pointer
from dragoman.formats.json.draft import Draft
from dragoman.formats.json.link import SCHEME, Linked, Place

PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000, size_limit=2_000_000)


def compiled(linked: Linked, place: Place | None = None) -> jsonschema_rs.Validator:
    """The validator of a linked schema, or of one place in it. Raises ``InvalidSchema``."""
    others = [
        (f"{SCHEME}{number}", _with_draft(document, linked.drafts[number]))
        for number, document in enumerate(linked.documents)
    ]
    draft = linked.drafts[place.document if place else 0]
    root = {"$ref": place.uri} if place else linked.documents[0]
    try:
        return draft.validator(
            root,
            registry=jsonschema_rs.Registry(others),
            base_uri=f"{SCHEME}0" if place is None else None,
            pattern_options=PATTERNS,
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        raise invalid(error) from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"The schema cannot be compiled: {error}") from None


def check(schema: Any, draft: Draft) -> None:
    """Hold a document against its draft's own schema. Raises ``InvalidSchema`` with the pointer."""
    try:
        jsonschema_rs.meta.validate(_with_draft(schema, draft))
    except jsonschema_rs.ValidationError as error:
        raise invalid(error) from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"The schema cannot be checked: {error}") from None


def invalid(error: jsonschema_rs.ValidationError) -> InvalidSchema:
    return InvalidSchema(
        f"The schema is not valid: {error.message}.",
        next="Correct it, or name the draft it is written for in $schema.",
        pointer=pointer(error.instance_path) or "/",
    )


@lru_cache(maxsize=4096)
def matches(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text, by the engine that also validates."""
    return _pattern(pattern).is_valid(text)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> jsonschema_rs.Validator:
    return Draft.DRAFT7.validator({"pattern": pattern}, pattern_options=PATTERNS, offline=True)


def _with_draft(schema: Any, draft: Draft) -> Any:
    return {**schema, "$schema": draft.uri} if isinstance(schema, dict) else schema
