"""Random Avro schemas, values for them, and later versions of them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Schema = Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
]
SYMBOLS = ["RED", "GREEN", "BLUE", "BLACK"]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Schema:
    """Any schema. Each named type occurs once, under a name of its own."""
    numbers = itertools.count(1)
    return draw_type(draw, numbers, depth)


@st.composite
def record_schemas(draw: st.DrawFn, depth: int = 3) -> Schema:
    return draw_record(draw, itertools.count(1), depth)


def draw_type(draw: st.DrawFn, numbers: Any, depth: int) -> Schema:
    simple = ["primitive", "logical", "enum", "fixed", "decimal"]
    kind = draw(st.sampled_from(simple + (["record", "array", "map", "union"] if depth else [])))
    match kind:
        case "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        case "logical":
            return dict(draw(st.sampled_from(LOGICAL)))
        case "enum":
            return draw_enum(draw, numbers)
        case "fixed":
            return {"type": "fixed", "name": f"Fixed{next(numbers)}", "size": draw(st.integers(1, 5))}
        case "decimal":
            name = f"Fixed{next(numbers)}"
            return {
                "type": "fixed",
                "name": name,
                "size": 8,
                "logicalType": "decimal",
                "precision": 9,
                "scale": 2,
            }
        case "array":
            return {"type": "array", "items": draw_type(draw, numbers, depth - 1)}
        case "map":
            return {"type": "map", "values": draw_type(draw, numbers, depth - 1)}
        case "union":
            return draw_union(draw, numbers, depth)
        case _:
            return draw_record(draw, numbers, depth)


def draw_enum(draw: st.DrawFn, numbers: Any) -> Schema:
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
    return {"type": "enum", "name": f"Enum{next(numbers)}", "symbols": symbols}


def draw_record(draw: st.DrawFn, numbers: Any, depth: int) -> Schema:
    count = draw(st.integers(0, 4))
    number = next(numbers)
    fields = [
        {"name": f"field{index}", "type": draw_type(draw, numbers, depth - 1)} for index in range(count)
    ]
    return {"type": "record", "name": f"Record{number}", "namespace": "test", "fields": fields}


def draw_union(draw: st.DrawFn, numbers: Any, depth: int) -> Schema:
    """Branches whose values cannot be taken for one another's, so that every library picks the same."""
    makers = {
        "null": lambda: "null",
        "boolean": lambda: "boolean",
        "number": lambda: draw(st.sampled_from(["int", "long", "float", "double"])),
        "text": lambda: draw_enum(draw, numbers) if draw(st.booleans()) else "string",
        "array": lambda: {"type": "array", "items": draw_type(draw, numbers, depth - 1)},
        "dict": lambda: (
            draw_record(draw, numbers, depth - 1)
            if draw(st.booleans())
            else {"type": "map", "values": draw_type(draw, numbers, depth - 1)}
        ),
    }
    kinds = draw(st.lists(st.sampled_from(list(makers)), min_size=1, max_size=4, unique=True))
    return [makers[kind]() for kind in kinds]


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Plain values of a schema."""
    if isinstance(schema, list):
        return st.one_of([values(branch) for branch in schema])
    if isinstance(schema, str):
        return _primitive(schema)
    if "logicalType" in schema:
        return _logical(schema)
    match schema["type"]:
        case "record":
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
        case "array":
            return st.lists(values(schema["items"]), max_size=4)
        case "map":
            return st.dictionaries(st.text(max_size=4), values(schema["values"]), max_size=3)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case primitive:
            return _primitive(primitive)


def _primitive(kind: str) -> st.SearchStrategy[Any]:
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1)
        case "float":
            return st.floats(width=32, allow_nan=False)
        case "double":
            return st.floats(allow_nan=False)
        case "bytes":
            return st.binary(max_size=70)
        case _:
            return st.text(max_size=70)


def _logical(schema: Schema) -> st.SearchStrategy[Any]:
    match schema["logicalType"]:
        case "date":
            return st.dates()
        case "time-millis":
            return st.times().map(_millis)
        case "time-micros":
            return st.times()
        case "timestamp-millis":
            return st.datetimes(timezones=st.just(UTC)).map(_millis)
        case "timestamp-micros":
            return st.datetimes(timezones=st.just(UTC))
        case "local-timestamp-millis":
            return st.datetimes().map(_millis)
        case "local-timestamp-micros":
            return st.datetimes()
        case "uuid":
            return st.uuids()
        case _:
            top = 10 ** schema["precision"] - 1
            return st.integers(-top, top).map(lambda number: Decimal(number).scaleb(-schema["scale"]))


def _millis(moment: Any) -> Any:
    assert isinstance(moment, datetime | time)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


DEFAULTS: list[tuple[Schema, Any]] = [
    ("int", 7),
    ("string", "seven"),
    ("boolean", True),
    (["null", "string"], None),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"a": "b"}),
]
PROMOTED = {"int": ["long", "float", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}


@st.composite
def successors(draw: st.DrawFn, schema: Schema) -> Schema:
    """A later version of the schema that must still read what the first one writes."""
    if isinstance(schema, list):
        return [draw(successors(branch)) if isinstance(branch, dict) else branch for branch in schema]
    if isinstance(schema, str):
        if schema in PROMOTED and draw(st.booleans()):
            return draw(st.sampled_from(PROMOTED[schema]))
        return schema
    if "logicalType" in schema:
        return schema
    match schema["type"]:
        case "array":
            return {**schema, "items": draw(successors(schema["items"]))}
        case "map":
            return {**schema, "values": draw(successors(schema["values"]))}
        case "enum":
            symbols = draw(st.permutations(SYMBOLS))
            return {**schema, "symbols": symbols}
        case "record":
            return {**schema, "fields": draw(_later_fields(schema["fields"]))}
        case _:
            return schema


@st.composite
def _later_fields(draw: st.DrawFn, fields: list[Any]) -> list[Any]:
    later = []
    for field in fields:
        if draw(st.integers(0, 4)) == 0:
            continue
        changed = {"name": field["name"], "type": draw(successors(field["type"]))}
        if draw(st.integers(0, 3)) == 0:
            changed |= {"name": f"new_{field['name']}", "aliases": [field["name"]]}
        later.append(changed)
    for index in range(draw(st.integers(0, 2))):
        type, default = draw(st.sampled_from(DEFAULTS))
        later.append({"name": f"added{index}", "type": type, "default": default})
    return draw(st.permutations(later))


@st.composite
def neighbours(draw: st.DrawFn, schema: Schema) -> Schema:
    """Another version of the schema, which may or may not read what the first one writes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["null", "int", "long", "string", "bytes", "double"]))
    if isinstance(schema, list):
        kept = [draw(neighbours(branch)) for branch in schema if draw(st.integers(0, 3))]
        distinct: dict[str, Any] = {}
        for branch in kept or ["null"]:
            name = (
                branch
                if isinstance(branch, str)
                else branch.get("name", branch["type"])
                if isinstance(branch, dict)
                else None
            )
            if name is not None:
                distinct.setdefault(name, branch)
        return list(distinct.values()) or ["null"]
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, "long", ["null", schema] if schema != "null" else ["null"]]))
    match schema["type"]:
        case "array":
            return {**schema, "items": draw(neighbours(schema["items"]))}
        case "map":
            return {**schema, "values": draw(neighbours(schema["values"]))}
        case "enum":
            symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
            extra = {"default": symbols[0]} if draw(st.booleans()) else {}
            return {**schema, "symbols": symbols, **extra}
        case "record":
            fields = [
                {"name": field["name"], "type": draw(neighbours(field["type"]))}
                for field in schema["fields"]
                if draw(st.integers(0, 3))
            ]
            if draw(st.booleans()):
                fields.append({"name": "added", "type": "int", "default": 1})
            return {**schema, "fields": fields}
        case _:
            return schema
