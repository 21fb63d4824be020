"""The verdicts of Confluent's registry, case by case: what changes, and which rule says no."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dragoman.core.format import Policy
from dragoman.formats.json import JsonFormat

FORMAT = JsonFormat()
STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
NULL: dict[str, Any] = {"type": "null"}


def obj(properties: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, **keywords}


def closed(properties: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    return obj(properties, additionalProperties=False, **keywords)


def array(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


class Case(NamedTuple):
    """``rule`` is the one that refuses; ``None`` means compatible."""

    change: str
    old: Any
    new: Any
    rule: str | None = None


CASES = [
    Case("nothing", obj({"a": STRING}), obj({"a": STRING})),
    Case("title and description", {**STRING, "title": "A"}, {**STRING, "title": "B", "description": "b"}),
    Case("default", {**STRING, "default": "a"}, {**STRING, "default": "b"}),
    Case("type to another", STRING, INTEGER, "TYPE_CHANGED"),
    Case("integer to number", INTEGER, NUMBER),
    Case("number to integer", NUMBER, INTEGER, "TYPE_NARROWED"),
    Case("type to anything", STRING, {}),
    Case("type to true", STRING, True),
    Case("anything to type", {}, STRING, "TYPE_CHANGED"),
    Case("false to type", False, STRING),
    Case("maxLength added", STRING, {**STRING, "maxLength": 3}, "MAX_LENGTH_ADDED"),
    Case("maxLength removed", {**STRING, "maxLength": 3}, STRING),
    Case("maxLength increased", {**STRING, "maxLength": 3}, {**STRING, "maxLength": 4}),
    Case(
        "maxLength decreased", {**STRING, "maxLength": 3}, {**STRING, "maxLength": 2}, "MAX_LENGTH_DECREASED"
    ),
    Case("minLength added", STRING, {**STRING, "minLength": 3}, "MIN_LENGTH_ADDED"),
    Case(
        "minLength increased", {**STRING, "minLength": 3}, {**STRING, "minLength": 4}, "MIN_LENGTH_INCREASED"
    ),
    Case("minLength decreased", {**STRING, "minLength": 3}, {**STRING, "minLength": 2}),
    Case("pattern added", STRING, {**STRING, "pattern": "^a"}, "PATTERN_ADDED"),
    Case("pattern removed", {**STRING, "pattern": "^a"}, STRING),
    Case("pattern changed", {**STRING, "pattern": "^a"}, {**STRING, "pattern": "^b"}, "PATTERN_CHANGED"),
    Case("maximum added", NUMBER, {**NUMBER, "maximum": 3}, "MAXIMUM_ADDED"),
    Case("maximum increased", {**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 3.5}),
    Case("maximum decreased", {**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 2}, "MAXIMUM_DECREASED"),
    Case("minimum increased", {**NUMBER, "minimum": 3}, {**NUMBER, "minimum": 4}, "MINIMUM_INCREASED"),
    Case("minimum decreased", {**NUMBER, "minimum": 3}, {**NUMBER, "minimum": 2}),
    Case("exclusiveMaximum added", NUMBER, {**NUMBER, "exclusiveMaximum": 3}, "EXCLUSIVE_MAXIMUM_ADDED"),
    Case(
        "exclusiveMaximum decreased",
        {**NUMBER, "exclusiveMaximum": 3},
        {**NUMBER, "exclusiveMaximum": 2},
        "EXCLUSIVE_MAXIMUM_DECREASED",
    ),
    Case(
        "exclusiveMinimum increased",
        {**NUMBER, "exclusiveMinimum": 3},
        {**NUMBER, "exclusiveMinimum": 4},
        "EXCLUSIVE_MINIMUM_INCREASED",
    ),
    Case("multipleOf added", INTEGER, {**INTEGER, "multipleOf": 5}, "MULTIPLE_OF_ADDED"),
    Case("multipleOf removed", {**INTEGER, "multipleOf": 5}, INTEGER),
    Case("multipleOf reduced", {**INTEGER, "multipleOf": 10}, {**INTEGER, "multipleOf": 5}),
    Case(
        "multipleOf expanded",
        {**INTEGER, "multipleOf": 5},
        {**INTEGER, "multipleOf": 10},
        "MULTIPLE_OF_EXPANDED",
    ),
    Case(
        "multipleOf changed",
        {**INTEGER, "multipleOf": 3},
        {**INTEGER, "multipleOf": 2},
        "MULTIPLE_OF_CHANGED",
    ),
    Case("multipleOf in tenths", {**NUMBER, "multipleOf": 0.3}, {**NUMBER, "multipleOf": 0.1}),
    Case("enum extended", {"enum": ["a"]}, {"enum": ["a", "b"]}),
    Case("enum narrowed", {"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    Case("enum changed", {"enum": ["a", "b"]}, {"enum": ["a", "c"]}, "ENUM_ARRAY_CHANGED"),
    Case("enum reordered", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    Case("const to enum", {"const": 1}, {"enum": [1, 2]}),
    Case("const changed", {"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED"),
    Case(
        "typed enum narrowed",
        {**STRING, "enum": ["a", "b"]},
        {**STRING, "enum": ["a"]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    Case("typed enum to its type", {**STRING, "enum": ["a", "b"]}, STRING),
    Case(
        "required added", obj({"a": STRING}), obj({"a": STRING}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"
    ),
    Case(
        "required with default added",
        obj({"a": STRING}),
        obj({"a": {**STRING, "default": ""}}, required=["a"]),
    ),
    Case("required removed", obj({"a": STRING}, required=["a"]), obj({"a": STRING})),
    Case("property added to open", obj(), obj({"a": STRING}), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    Case("empty property added to open", obj(), obj({"a": {}})),
    Case("optional property added to closed", closed(), closed({"a": STRING})),
    Case(
        "required property added to closed",
        closed(),
        closed({"a": STRING}, required=["a"]),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    Case(
        "required property with default added to closed",
        closed(),
        closed({"a": {**STRING, "default": "x"}}, required=["a"]),
    ),
    Case("property removed from open", obj({"a": STRING}), obj()),
    Case(
        "property removed from closed",
        closed({"a": STRING}),
        closed(),
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    Case("false property removed from closed", closed({"a": False}), closed()),
    Case(
        "property removed, covered by additionalProperties",
        obj({"a": STRING}, additionalProperties=STRING),
        obj(additionalProperties=STRING),
    ),
    Case(
        "property removed, not covered by additionalProperties",
        obj({"a": INTEGER}, additionalProperties=STRING),
        obj(additionalProperties=STRING),
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    Case(
        "property added, covered by additionalProperties",
        obj(additionalProperties=STRING),
        obj({"a": STRING}, additionalProperties=STRING),
    ),
    Case(
        "property added, not covered by additionalProperties",
        obj(additionalProperties=STRING),
        obj({"a": INTEGER}, additionalProperties=STRING),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    Case(
        "property removed, covered by a pattern",
        closed({"s_a": STRING}, patternProperties={"^s_": STRING}),
        closed(patternProperties={"^s_": STRING}),
    ),
    Case(
        "property added, not covered by a pattern",
        closed(patternProperties={"^s_": STRING}),
        closed({"s_a": INTEGER}, patternProperties={"^s_": STRING}),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    Case("closed to open", closed(), obj()),
    Case("open to closed", obj(), closed(), "ADDITIONAL_PROPERTIES_REMOVED"),
    Case("open to partially open", obj(), obj(additionalProperties=STRING), "ADDITIONAL_PROPERTIES_NARROWED"),
    Case("partially open to open", obj(additionalProperties=STRING), obj()),
    Case(
        "other properties of another type",
        obj(additionalProperties=STRING),
        obj(additionalProperties=INTEGER),
        "TYPE_CHANGED",
    ),
    Case("maxProperties added", obj(), obj(maxProperties=1), "MAX_PROPERTIES_ADDED"),
    Case("minProperties decreased", obj(minProperties=2), obj(minProperties=1)),
    Case("dependency added", obj(), obj(dependencies={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED"),
    Case(
        "dependency extended",
        obj(dependencies={"a": ["b"]}),
        obj(dependencies={"a": ["b", "c"]}),
        "DEPENDENCY_ARRAY_EXTENDED",
    ),
    Case("dependency narrowed", obj(dependencies={"a": ["b", "c"]}), obj(dependencies={"a": ["b"]})),
    Case("dependency removed", obj(dependencies={"a": ["b"]}), obj()),
    Case(
        "dependency on a schema added",
        obj(),
        obj(dependencies={"a": obj(required=["b"])}),
        "DEPENDENCY_SCHEMA_ADDED",
    ),
    Case("dependency on a schema removed", obj(dependencies={"a": obj(required=["b"])}), obj()),
    Case("items schema added", array(), array(items=STRING), "SCHEMA_ADDED"),
    Case("items schema removed", array(items=STRING), array()),
    Case("items of another type", array(items=STRING), array(items=INTEGER), "TYPE_CHANGED"),
    Case("maxItems decreased", array(maxItems=3), array(maxItems=2), "MAX_ITEMS_DECREASED"),
    Case("minItems added", array(), array(minItems=1), "MIN_ITEMS_ADDED"),
    Case("uniqueItems added", array(), array(uniqueItems=True), "UNIQUE_ITEMS_ADDED"),
    Case("uniqueItems removed", array(uniqueItems=True), array()),
    Case(
        "item added to open",
        array(items=[STRING]),
        array(items=[STRING, INTEGER]),
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    Case("empty item added to open", array(items=[STRING]), array(items=[STRING, {}])),
    Case(
        "item added to closed",
        array(items=[STRING], additionalItems=False),
        array(items=[STRING, INTEGER], additionalItems=False),
    ),
    Case("item removed from open", array(items=[STRING, INTEGER]), array(items=[STRING])),
    Case(
        "item removed from closed",
        array(items=[STRING, INTEGER], additionalItems=False),
        array(items=[STRING], additionalItems=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    Case(
        "item removed, covered",
        array(items=[STRING, STRING], additionalItems=STRING),
        array(items=[STRING], additionalItems=STRING),
    ),
    Case(
        "item added, not covered",
        array(items=[STRING], additionalItems=STRING),
        array(items=[STRING, INTEGER], additionalItems=STRING),
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    Case(
        "additional items refused",
        array(items=[STRING]),
        array(items=[STRING], additionalItems=False),
        "ADDITIONAL_ITEMS_REMOVED",
    ),
    Case("one type to two", STRING, {"type": ["string", "null"]}),
    Case("two types to one", {"type": ["string", "null"]}, STRING, "SUM_TYPE_NARROWED"),
    Case("types reordered", {"type": ["string", "null"]}, {"type": ["null", "string"]}),
    Case("type list to anyOf", {"type": ["string", "null"]}, {"anyOf": [NULL, STRING]}),
    Case("one schema to oneOf", STRING, {"oneOf": [STRING, NULL]}),
    Case("one schema to oneOf without it", STRING, {"oneOf": [INTEGER, NULL]}, "TYPE_CHANGED"),
    Case("alternative added", {"oneOf": [STRING, NULL]}, {"oneOf": [STRING, NULL, INTEGER]}),
    Case(
        "alternative removed",
        {"oneOf": [STRING, NULL, INTEGER]},
        {"oneOf": [STRING, NULL]},
        "SUM_TYPE_NARROWED",
    ),
    Case(
        "alternative changed",
        {"oneOf": [STRING, NULL]},
        {"oneOf": [INTEGER, NULL]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    Case("oneOf to anyOf", {"oneOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    Case("anyOf to oneOf", {"anyOf": [STRING, NULL]}, {"oneOf": [STRING, NULL]}, "COMBINED_TYPE_CHANGED"),
    Case("anyOf to allOf", {"anyOf": [STRING, NULL]}, {"allOf": [STRING, NULL]}, "COMBINED_TYPE_CHANGED"),
    Case("singleton unwrapped", {"oneOf": [STRING]}, STRING),
    Case("singleton wrapped", STRING, {"allOf": [STRING]}),
    Case("repeated branch counts once", {"anyOf": [STRING, STRING]}, STRING),
    Case(
        "branches matched, not paired in order",
        {"anyOf": [INTEGER, {**INTEGER, "maximum": 5}]},
        {"anyOf": [{**INTEGER, "maximum": 7}, NUMBER]},
    ),
    Case(
        "part added to allOf",
        {"allOf": [obj({"a": STRING}), obj({"b": STRING})]},
        {"allOf": [obj({"a": STRING}), obj({"b": STRING}), obj({"c": STRING})]},
        "PRODUCT_TYPE_EXTENDED",
    ),
    Case(
        "part removed from allOf",
        {"allOf": [obj({"a": STRING}), obj({"b": STRING}), obj({"c": STRING})]},
        {"allOf": [obj({"a": STRING}), obj({"b": STRING})]},
    ),
    Case("allOf to one part", {"allOf": [obj({"a": STRING}), obj({"b": STRING})]}, obj({"a": STRING})),
    Case(
        "one part to allOf",
        obj({"a": STRING}),
        {"allOf": [obj({"a": STRING}), obj({"b": STRING})]},
        "PRODUCT_TYPE_EXTENDED",
    ),
    Case("not narrowed", {"not": {"type": ["string", "integer"]}}, {"not": STRING}),
    Case("not extended", {"not": STRING}, {"not": {"type": ["string", "integer"]}}, "NOT_TYPE_EXTENDED"),
    Case("format changed", {**STRING, "format": "date"}, {**STRING, "format": "email"}),
    Case(
        "a pattern's schema changed",
        obj(patternProperties={"^a": STRING}),
        obj(patternProperties={"^a": INTEGER}),
    ),
    Case("propertyNames added", obj(), obj(propertyNames={"maxLength": 2})),
    Case("contains added", array(), array(contains=STRING)),
    Case(
        "condition changed",
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["c"]}},
    ),
    Case("implied type demanded", {"minLength": 1}, {**STRING, "minLength": 1}),
]


def rules(case: Case, policy: Policy = Policy.STRICT) -> list[str]:
    reader, writer = FORMAT.parse(json.dumps(case.new)), FORMAT.parse(json.dumps(case.old))
    return [reason.rule for reason in FORMAT.incompatibilities(reader, writer, policy)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change)
def test_the_strict_verdict(case: Case) -> None:
    assert rules(case) == ([case.rule] if case.rule else [])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change)
def test_the_verdict_inside_a_property_is_the_same(case: Case) -> None:
    nested = Case(case.change, obj({"in": case.old}), obj({"in": case.new}), case.rule)
    assert rules(nested) == ([case.rule] if case.rule else [])


LENIENT = {
    "property added to open",
    "property removed from closed",
    "open to closed",
    "open to partially open",
    "item added to open",
    "item removed from closed",
    "additional items refused",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change)
def test_the_lenient_verdict_differs_only_about_content_models(case: Case) -> None:
    expected = case.rule is None or case.change in LENIENT
    assert (not rules(case, Policy.LENIENT)) == expected


EXACT = {
    "format changed": "FORMAT_CHANGED",
    "a pattern's schema changed": "PATTERN_PROPERTY_NARROWED",
    "propertyNames added": "PROPERTY_NAMES_NARROWED",
    "contains added": "CONTAINS_NARROWED",
    "condition changed": "CONDITION_CHANGED",
    "implied type demanded": "IMPLIED_TYPE_DEMANDED",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change)
def test_the_exact_verdict_also_sees_what_the_usual_checkers_overlook(case: Case) -> None:
    expected = case.rule or EXACT.get(case.change)
    assert rules(case, Policy.EXACT) == ([expected] if expected else [])


def test_a_required_property_added_to_an_open_model_is_refused_even_leniently() -> None:
    case = Case("", obj(), obj({"a": STRING}, required=["a"]))
    assert rules(case, Policy.LENIENT) == ["REQUIRED_ATTRIBUTE_ADDED"]


DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (INTEGER, {**INTEGER, "$schema": DRAFT4}, "WHOLE_NUMBER_REFUSED"),
        ({**STRING, "format": "date", "$schema": DRAFT2020}, {**STRING, "format": "date"}, "FORMAT_CHANGED"),
        ({**STRING, "format": "date"}, {**STRING, "format": "date", "$schema": DRAFT2020}, None),
        (obj(patternProperties={"^a": STRING}), obj(patternProperties={"^a": STRING, "b$": {}}), None),
        (closed(patternProperties={"^a": STRING}), closed(), "PATTERN_PROPERTY_REMOVED"),
        (
            closed({"ab": INTEGER}),
            closed({"ab": INTEGER}, patternProperties={"^a": STRING}),
            "PATTERN_PROPERTY_NARROWED",
        ),
        (obj(propertyNames={"maxLength": 2}), obj(propertyNames={"maxLength": 3}), None),
        (array(contains=INTEGER), array(contains=NUMBER), None),
        (array(contains=NUMBER), array(contains=INTEGER), "CONTAINS_NARROWED"),
        ({"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING, NUMBER, NULL]}, None),
        ({"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING, NUMBER, INTEGER]}, "ALTERNATIVES_OVERLAP"),
        (
            closed({"a": STRING}),
            closed({"a": {**STRING, "default": 1}}, required=["a"]),
            "DEFAULT_UNFIT",
        ),
        (
            closed({"a": STRING}, maxProperties=1),
            closed({"a": {**STRING, "default": "x"}}, required=["a"], maxProperties=1),
            "DEFAULT_UNFIT",
        ),
        (
            {"$schema": DRAFT2020, "allOf": [obj({"a": STRING})], "unevaluatedProperties": False},
            {"$schema": DRAFT2020, "allOf": [obj({"b": STRING})], "unevaluatedProperties": False},
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        ),
        (
            {
                "$schema": DRAFT2020,
                "$ref": "#/$defs/a",
                "$defs": {"a": obj({"a": {}})},
                "unevaluatedProperties": False,
            },
            {
                "$schema": DRAFT2020,
                "$ref": "#/$defs/a",
                "$defs": {"a": obj()},
                "unevaluatedProperties": False,
            },
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        ),
    ],
)
def test_exact_closes_the_holes(old: Any, new: Any, rule: str | None) -> None:
    assert rules(Case("", old, new), Policy.EXACT) == ([rule] if rule else [])
    if rule in ("COMBINED_TYPE_SUBSCHEMAS_CHANGED",):
        return
    assert rules(Case("", old, new), Policy.STRICT) == []
