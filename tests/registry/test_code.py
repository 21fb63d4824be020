"""Python records from contracts: they compile, and give the contract's schema back."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.registry.schemas import avro

from dragoman.core.errors import InvalidSchema
from dragoman.core.loading import FORMATS, load
from dragoman.core.schema import Reference, Schema
from dragoman.registry import RegistryService, connect
from dragoman.registry.code import generate
from dragoman.schema.markers import Length
from dragoman.schema.records import record

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop",
    "doc": "All that a record can hold.",
    "aliases": ["shop.All"],
    "fields": [
        {"name": "flag", "type": "boolean", "default": True},
        {"name": "small", "type": "int", "doc": "Not 'large'.", "aliases": ["tiny"]},
        {"name": "large", "type": "long", "order": "descending"},
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double", "default": 1.5},
        {"name": "data", "type": "bytes", "default": "\u00ff"},
        {"name": "class", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"], "default": "A"}},
        {"name": "again", "type": "Kind", "default": "B"},
        {"name": "checksum", "type": {"type": "fixed", "name": "Checksum", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "counts", "type": {"type": "map", "values": "long"}, "default": {"a": 1}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "here", "type": {"type": "long", "logicalType": "local-timestamp-nanos"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {
            "name": "span",
            "type": {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"},
        },
        {
            "name": "line",
            "type": {
                "type": "record",
                "name": "Line",
                "fields": [{"name": "next", "type": ["null", "Line"], "default": None}],
            },
        },
        {"name": "either", "type": ["string", "long", "Line"]},
    ],
}

PROTO = """syntax = "proto3";
package shop;
message Order {
  int64 id = 1;
  repeated string tags = 4;
  Customer customer = 5;
  Kind kind = 6;
  message Customer { string name = 2; }
  enum Kind { KIND_UNSPECIFIED = 0; KIND_BIG = 3; }
}
"""

THRIFT = """namespace * shop
enum Kind { A = 1, B = 4 }
struct Line { 1: required i64 id, 3: optional string text }
struct Order { 1: required i32 id, 2: optional list<Line> lines, 7: optional Kind kind }
"""


@record
class Line:
    text: Annotated[str, Length(max=80)]
    words: Annotated[list[str], Length(min=1, max=9)]


@record
class Order:
    id: int
    lines: list[Line]
    note: str | None = None


JSON_TEXT = load(FORMATS, "JSON")().schema_of(Order)


@pytest.fixture
async def service() -> Any:
    service = RegistryService.open("sqlite://:memory:")
    yield service
    await service.close()


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Any]:
    """Import generated text as a module."""
    made: list[str] = []

    def load_source(source: str) -> Any:
        name = f"generated_records_{len(made)}_{tmp_path.name}"
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        made.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_source
    for name in made:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("type", "text", "root"),
    [
        ("AVRO", json.dumps(EVERYTHING), "Everything"),
        ("JSON", JSON_TEXT, "Order"),
        ("PROTOBUF", PROTO, "Order"),
        ("THRIFT", THRIFT, "Order"),
    ],
)
async def test_a_contract_becomes_a_class_of_the_same_schema(
    service: RegistryService, loaded: Any, type: str, text: str, root: str
) -> None:
    await service.register("things-value", Schema(type, text))
    made = await generate(service, "things-value")
    again = await generate(service, "things-value", 1)
    assert again.source == made.source
    module = loaded(made.source)
    format = load(FORMATS, type)()
    back = format.parse(format.schema_of(getattr(module, root)))
    there = format.parse((await service.version("things-value")).schema.text)
    assert not format.incompatibilities(back, there)
    assert not format.incompatibilities(there, back)
    if made.faithful:
        assert back.fingerprint == there.fingerprint


async def test_avro_comes_back_to_the_letter(service: RegistryService, loaded: Any) -> None:
    await service.register("things-value", Schema("AVRO", json.dumps(EVERYTHING)))
    made = await generate(service, "things-value")
    assert made.faithful
    module = loaded(made.source)
    format = load(FORMATS, "AVRO")()
    back = format.parse(format.schema_of(module.Everything))
    there = format.parse((await service.version("things-value")).schema.text)
    assert back.normalised(2) == there.normalised(2)
    example = module.Everything.__dataclass_fields__
    assert example["class_"].name == "class_"


async def test_types_of_other_contracts_are_part_of_the_code(service: RegistryService, loaded: Any) -> None:
    await service.register("customer", avro(("name", "string"), name="Customer"))
    order = avro(("id", "long"), ("customer", "shop.Customer"))
    linked = Schema("AVRO", order.text, (Reference("shop.Customer", "customer", 1),))
    await service.register("orders-value", linked)
    module = loaded((await generate(service, "orders-value")).source)
    assert module.Order(1, module.Customer("Ada")).customer.name == "Ada"


async def test_a_schema_that_is_no_record_has_no_class(service: RegistryService) -> None:
    await service.register("word", Schema("AVRO", '"string"'))
    with pytest.raises(InvalidSchema) as refused:
        await generate(service, "word")
    assert refused.value.code == "schema.not-a-record"


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("AVRO", avro(("class", "int"), ("class_", "string")).text),
        ("THRIFT", "struct A { 1: i32 lambda, 2: string lambda_ }"),
    ],
)
async def test_no_field_is_lost_to_another_of_the_same_name_in_python(type: str, text: str) -> None:
    registry = connect("memory://")
    await registry.register("a", Schema(type, text))
    with pytest.raises(InvalidSchema, match="same name in Python"):
        await generate(registry, "a")
    await registry.close()
