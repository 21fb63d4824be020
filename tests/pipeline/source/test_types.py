"""The table in the documentation is the mapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dragoman.pipeline.arrow import Mapping
from dragoman.pipeline.arrow.avro import AvroColumns
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.types import arrow_schema, spark_schema

PAGE = Path(__file__).parents[3] / "docs" / "pipeline-types.md"
NODE = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}
UNION = ["null", "long", "string"]
EXAMPLES: dict[str, Any] = {
    "`enum`": {"type": "enum", "name": "E", "symbols": ["A"]},
    "`fixed`": {"type": "fixed", "name": "F", "size": 3},
    "`array`": {"type": "array", "items": "long"},
    "`map`": {"type": "map", "values": "long"},
    "`record`": {"type": "record", "name": "I", "fields": [{"name": "a", "type": "long"}]},
    "`decimal`": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "`decimal` of more than 38 digits": {"type": "bytes", "logicalType": "decimal", "precision": 39},
    "`uuid`": {"type": "string", "logicalType": "uuid"},
    "`uuid` in 16 bytes": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    "`date`": {"type": "int", "logicalType": "date"},
    "`time-millis`": {"type": "int", "logicalType": "time-millis"},
    "`duration`": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    "optional": ["null", "long"],
    "union": UNION,
}


def table() -> list[tuple[str, str, str]]:
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [(a.strip(), b.strip().strip("`"), c.strip().strip("`")) for a, b, c in rows[2:]]


def schema_of(kind: str) -> Any:
    if kind == "recursion":
        return NODE
    if kind in EXAMPLES:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": EXAMPLES[kind]}]}
    plain = kind.strip("`")
    type = {"type": "long", "logicalType": plain} if "-" in plain else plain
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": type}]}


@pytest.mark.parametrize(("avro", "spark", "arrow"), table(), ids=[row[0] for row in table()])
def test_a_type_becomes_what_the_table_says(avro: str, spark: str, arrow: str) -> None:
    kind, _, option = avro.partition(", ")
    chosen: Any = dict([option.strip("`").split("=")]) if option else {}
    text = SchemaText("AVRO", json.dumps(schema_of(kind)))

    columns = pa.schema(list(AvroColumns().struct_type(text, Mapping(**chosen))))

    assert spark_schema(columns)["a"].dataType.simpleString() == spark
    assert str(columns.field("a").type) == arrow
    assert arrow_schema(spark_schema(columns)) == columns
