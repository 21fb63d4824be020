"""Whatever the text, a schema is understood or refused; nothing else happens."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.json.strategies import anything, schemas

from dragoman.core.errors import DragomanError, IncompatibleSchema, InvalidSchema
from dragoman.core.format import Policy
from dragoman.formats.json import JsonFormat, describe_schema
from dragoman.formats.json.draft import LIST, NAMED, ONE

FORMAT = JsonFormat()
DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
KEYWORDS = sorted(
    {
        *ONE,
        *LIST,
        *NAMED,
        *("$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
        *("type", "enum", "const", "format", "default", "title", "description", "x-dragoman", "unknown"),
        *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "contentEncoding", "contentMediaType"),
        *("maxItems", "minItems", "uniqueItems", "minContains", "maxContains"),
        *("maxProperties", "minProperties", "required", "dependentRequired"),
    }
)
words = st.sampled_from(
    ["#", "#/$defs/a", "#a", "a", "string", "^a", "", "other", "http://example.com/x", "uuid"]
)
values = st.recursive(
    st.one_of(words, schemas(depth=1), anything, st.integers(-2, 3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("a", "b", *KEYWORDS)), inner, max_size=3),
    ),
    max_leaves=6,
)
wild = st.builds(
    lambda body, draft: {**body, **({"$schema": draft} if draft else {})},
    st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5),
    st.sampled_from([None, *DRAFTS]),
)
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=250, deadline=None, suppress_health_check=QUIET)
@given(wild, schemas())
def test_any_schema_is_understood_or_refused(schema: Any, other: Any) -> None:
    try:
        parsed = FORMAT.parse(json.dumps(schema), {"other": FORMAT.parse(json.dumps(other))})
    except InvalidSchema:
        return
    stranger = FORMAT.parse(json.dumps(other))
    assert len(parsed.fingerprint) == 64
    for policy in Policy:
        assert not FORMAT.incompatibilities(parsed, parsed, policy)
        FORMAT.incompatibilities(stranger, parsed, policy)
        FORMAT.incompatibilities(parsed, stranger, policy)
    with contextlib.suppress(IncompatibleSchema):
        FORMAT.codec(parsed, stranger)
    with contextlib.suppress(InvalidSchema):
        describe_schema(parsed)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=30), st.text(alphabet='{}[]",:0a \\u', max_size=20)))
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    try:
        FORMAT.parse(text)
    except DragomanError as error:
        assert error.code.startswith("schema.invalid")
