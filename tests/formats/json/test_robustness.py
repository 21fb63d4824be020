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
from dragoman.formats.json import JsonFormat, describe_schema, schema_text
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


extensions = st.dictionaries(
    st.sampled_from(
        [
            "type",
            "precision",
            "scale",
            "size",
            "name",
            "unit",
            "min",
            "max",
            "minBytes",
            "aliases",
            "fallback",
        ]
    ),
    st.one_of(
        st.sampled_from(["decimal", "date", "time", "timestamp", "duration", "fixed", "uuid", "float"]),
        st.sampled_from(["millis", "1", "2020-01-01", "a.b", "", "A"]),
        st.integers(-1, 3),
        st.lists(words, max_size=2),
    ),
    max_size=4,
)
described = st.builds(
    lambda schema, extension, extra: {**schema, "x-dragoman": extension, **extra},
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer"},
            {"type": "number"},
            {"enum": ["A", "b", "value", "_x_", "name"]},
            {"enum": ["A", "name"]},
            {"type": ["string", "null"], "contentEncoding": "base64"},
            {"type": "array", "items": {"type": "string", "format": "date"}},
            {
                "type": "object",
                "properties": {"a-b": {"type": "null"}, "a_b": {"type": "null"}, "__init__": {}},
            },
        ]
    ),
    extensions,
    st.one_of(st.just({}), st.builds(lambda value: {"default": value}, anything)),
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "class", "a-b", "a_b", "", "1", "__slots__"]), described, min_size=1
    )
)
def test_any_schema_has_a_description_that_has_a_schema_or_is_refused(properties: dict[str, Any]) -> None:
    schema = FORMAT.parse(json.dumps({"type": "object", "properties": properties}))
    with contextlib.suppress(InvalidSchema):
        record = describe_schema(schema)
        assert [each.name for each in record.fields] == list(properties)
        FORMAT.parse(schema_text(record))
