"""Schemas that resemble real ones, changes to them, and documents that fit them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "id")
SCALARS = st.sampled_from([None, True, False, 0, 1, -3, 7, 2.5, "", "a", "abc", "x1"])
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"

small = st.integers(0, 4)
numbers = st.integers(-5, 9)
patterns = st.sampled_from(["^a", "[0-9]", "^x", "b$"])


def keywords(options: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


@st.composite
def typed(draw: st.DrawFn, inner: st.SearchStrategy[Any], holes: bool) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "object"])
    )
    schema: dict[str, Any] = {"type": kind}
    if kind == "string":
        options = {"minLength": small, "maxLength": small, "pattern": patterns}
        if holes:
            options["format"] = st.sampled_from(["date", "email"])
        schema |= draw(keywords(options))
    elif kind in ("integer", "number"):
        limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        schema |= draw(keywords(dict.fromkeys(limits, numbers) | {"multipleOf": st.integers(1, 4)}))
    elif kind == "array":
        schema |= draw(arrays(inner, holes))
    elif kind == "object":
        schema |= draw(objects(inner, holes))
    return schema


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any], holes: bool) -> dict[str, Any]:
    options: dict[str, st.SearchStrategy[Any]] = {
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
    }
    if holes:
        options["contains"] = inner
    schema = draw(keywords(options))
    shape = draw(st.sampled_from(["any", "all", "tuple", "closed"]))
    if shape == "all":
        schema["items"] = draw(inner)
    elif shape != "any":
        schema["items"] = draw(st.lists(inner, min_size=1, max_size=2))
        if shape == "closed":
            schema["additionalItems"] = draw(st.one_of(st.just(False), inner))
    return schema


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any], holes: bool) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    schema: dict[str, Any] = {"properties": {name: draw(inner) for name in names}}
    for name in names:
        if holes and isinstance(schema["properties"][name], dict) and draw(st.integers(0, 4)) == 0:
            schema["properties"][name] = {**schema["properties"][name], "default": draw(SCALARS)}
    if names:
        schema["required"] = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    options = {
        "additionalProperties": st.one_of(st.just(False), st.just(True), inner),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(1, 4),
        "dependencies": st.dictionaries(
            st.sampled_from(NAMES),
            st.one_of(st.lists(st.sampled_from(NAMES), unique=True, max_size=2), inner),
            max_size=1,
        ),
    }
    if holes:
        options["patternProperties"] = st.dictionaries(patterns, inner, max_size=2)
        options["propertyNames"] = st.fixed_dictionaries(
            {}, optional={"maxLength": small, "pattern": patterns}
        )
    return schema | draw(keywords(options))


def schemas(holes: bool = True, depth: int = 2) -> st.SearchStrategy[Any]:
    """Without ``holes`` only what the usual checkers look at, and look at soundly."""
    leaves: list[st.SearchStrategy[Any]] = [
        st.just({}),
        st.just(True),
        st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
        st.builds(lambda kinds: {"type": kinds}, st.sampled_from(["string", "integer", "number", "boolean"])),
    ]
    if holes:
        leaves += [st.builds(lambda value: {"const": value}, SCALARS), st.just(False), loose()]
    if depth == 0:
        return st.one_of(leaves)
    inner = schemas(holes, depth - 1)
    return st.one_of(*leaves, structures(holes, inner))


def structures(holes: bool, inner: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas with something to change."""
    inner = schemas(holes, 1) if inner is None else inner
    return st.one_of(
        typed(inner, holes), typed(inner, holes), typed(inner, holes), combinations(inner, holes)
    )


def loose() -> st.SearchStrategy[dict[str, Any]]:
    """Keywords without a type."""
    return keywords({"minLength": small, "maximum": numbers, "required": st.just(["a"]), "minItems": small})


@st.composite
def combinations(draw: st.DrawFn, inner: st.SearchStrategy[Any], holes: bool) -> dict[str, Any]:
    kinds = ["anyOf", "allOf", "types", "beside"] + (["oneOf", "not", "if"] if holes else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "types":
        names = ["string", "integer", "null", "boolean", "object"]
        return {"type": draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=3))}
    if kind == "beside":
        return {
            **draw(typed(inner, holes)),
            "enum": draw(st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
        }
    if kind == "not":
        return {"not": draw(inner)}
    if kind == "if":
        return {"if": draw(inner), "then": draw(inner), "else": draw(inner)}
    return {kind: draw(st.lists(inner, min_size=1, max_size=3))}


@st.composite
def modern(draw: st.DrawFn, schema: Any, root: bool = True) -> Any:
    """The same schema as draft 2020-12 writes it, with a keyword of its own here and there."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {"$schema": DRAFT2020} if root else {}
    for keyword, value in schema.items():
        if keyword == "items" and isinstance(value, list):
            result["prefixItems"] = [draw(modern(each, False)) for each in value]
        elif keyword == "items" or keyword == "additionalItems":
            result["items"] = draw(modern(value, False))
        elif keyword in ("anyOf", "allOf", "oneOf"):
            result[keyword] = [draw(modern(each, False)) for each in value]
        elif keyword in ("properties", "patternProperties", "dependencies"):
            result[keyword] = {name: draw(modern(each, False)) for name, each in value.items()}
        elif keyword == "additionalProperties" and draw(st.booleans()):
            result["unevaluatedProperties"] = draw(modern(value, False))
        elif keyword in ("not", "if", "then", "else", "contains", "additionalProperties", "propertyNames"):
            result[keyword] = draw(modern(value, False))
        else:
            result[keyword] = value
    return result


def recursive(schema: Any) -> Any:
    """A list of such values, as a record that contains itself."""
    return {
        "$ref": "#/definitions/node",
        "definitions": {
            "node": {
                "type": "object",
                "properties": {"v": schema, "next": {"$ref": "#/definitions/node"}},
                "additionalProperties": False,
            }
        },
    }


CHANGES = ("same", "loosen", "drop", "widen", "add", "wrap", "swap", "require", "tighten")


@st.composite
def changed(draw: st.DrawFn, schema: Any, holes: bool = True, depth: int = 3) -> Any:
    """The schema after a few edits, most of them the kind that people hope is compatible."""
    change = draw(st.sampled_from(CHANGES if depth < 3 else CHANGES[1:]))
    if not isinstance(schema, dict) or change == "swap":
        return draw(schemas(holes, 1)) if change == "swap" else schema
    if change == "wrap":
        more = draw(schemas(holes, 1))
        return {draw(st.sampled_from(["anyOf", "anyOf", "oneOf"] if holes else ["anyOf"])): [schema, more]}
    result = copy.deepcopy(schema)
    _edit(draw, result, change, holes)
    if depth:
        for keyword in ("properties", "patternProperties"):
            for name, each in result.get(keyword, {}).items():
                result[keyword][name] = draw(changed(each, holes, depth - 2))
        for keyword in (
            "items",
            "additionalProperties",
            "contains",
            "not",
            "if",
            "then",
            "else",
            "propertyNames",
        ):
            if isinstance(result.get(keyword), dict):
                result[keyword] = draw(changed(result[keyword], holes, 0))
        for keyword in ("anyOf", "allOf", "oneOf", "items"):
            if isinstance(result.get(keyword), list):
                result[keyword] = [draw(changed(each, holes, 0)) for each in result[keyword]]
    return result


def _edit(draw: st.DrawFn, schema: dict[str, Any], change: str, holes: bool) -> None:
    by = 1 if change == "loosen" else -1
    if change in ("loosen", "tighten"):
        for name in ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"):
            if name in schema:
                schema[name] = max(schema[name] + by, 0) if name.startswith("max") else schema[name] + by
        for name in ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"):
            if name in schema:
                schema[name] = max(schema[name] - by, 0) if name.startswith("min") else schema[name] - by
    elif change == "drop" and schema:
        del schema[draw(st.sampled_from(sorted(schema)))]
    elif change == "widen":
        if schema.get("type") == "integer":
            schema["type"] = "number"
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], "new"]
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                schema[keyword] = [*schema[keyword], draw(schemas(holes, 1))]
    elif change in ("add", "require") and "properties" in schema:
        name = draw(st.sampled_from(("new", *NAMES)))
        schema["properties"][name] = draw(schemas(holes, 1))
        if change == "require":
            schema["required"] = sorted({*schema.get("required", []), name})
            if holes and isinstance(schema["properties"][name], dict):
                schema["properties"][name] |= {"default": draw(SCALARS)}


@st.composite
def documents(draw: st.DrawFn, schema: Any, depth: int = 4) -> Any:
    """A document that probably fits; whoever uses it checks."""
    if not isinstance(schema, dict) or depth == 0:
        return draw(anything)
    if "enum" in schema and draw(st.integers(0, 3)):
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            return draw(documents(draw(st.sampled_from(schema[keyword])), depth - 1))
    kind = schema.get("type") or draw(st.sampled_from(["object", "string", "number", "array", "null"]))
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    return draw(_document_of(kind, schema, depth))


@st.composite
def _document_of(draw: st.DrawFn, kind: str, schema: dict[str, Any], depth: int) -> Any:
    if kind == "object":
        names = draw(st.lists(st.sampled_from((*NAMES, "new", "ab", "x1")), unique=True, max_size=3))
        value = {}
        for name in {**dict.fromkeys(schema.get("required", [])), **dict.fromkeys(names)}:
            additional = schema.get("additionalProperties", True)
            inner = schema.get("properties", {}).get(name, additional)
            if inner is not False:
                value[name] = draw(documents(inner, depth - 1))
        return value
    if kind == "array":
        items = schema.get("items", True)
        size = draw(st.integers(schema.get("minItems", 0), max(schema.get("minItems", 0), 2)))
        if isinstance(items, list):
            listed = [draw(documents(each, depth - 1)) for each in items]
            return (
                listed
                + [draw(documents(schema.get("additionalItems", True), depth - 1)) for _ in range(size)]
            )[: max(size, 1)]
        return [draw(documents(items, depth - 1)) for _ in range(size)]
    if kind in ("integer", "number"):
        low = max(schema.get("minimum", -6), schema.get("exclusiveMinimum", -7) + 1)
        high = max(low, min(schema.get("maximum", 12), schema.get("exclusiveMaximum", 13) - 1))
        number = draw(st.integers(low, high))
        return number + 0.5 if kind == "number" and draw(st.booleans()) else number
    if kind == "string":
        return draw(st.sampled_from(["", "a", "ab", "abc", "a1b", "x1", "0", "b", "x" * 5, "2020-01-02"]))
    return {"boolean": True, "null": None}[kind]


anything = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from((*NAMES, "new")), inner, max_size=2)
    ),
    max_leaves=4,
)
