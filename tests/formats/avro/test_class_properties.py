"""Classes made from random schemas: their codecs do what the plain ones do."""

from __future__ import annotations

import dataclasses
import enum
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.avro.strategies import record_schemas, values

from dragoman.formats.avro import AvroFormat
from dragoman.schema.markers import Float, Int, Unit, decimal, fixed, timeofday, timestamp
from dragoman.schema.records import named, record

pytestmark = pytest.mark.usefixtures("both_ways")
avro = AvroFormat()

PRIMITIVES: dict[str, Any] = {
    "null": None,
    "boolean": bool,
    "int": Int,
    "long": int,
    "float": Float,
    "double": float,
    "bytes": bytes,
    "string": str,
}
LOGICAL: dict[str, Any] = {
    "date": date,
    "time-millis": Annotated[time, timeofday(Unit.MILLIS)],
    "time-micros": time,
    "timestamp-millis": Annotated[datetime, timestamp(Unit.MILLIS)],
    "timestamp-micros": datetime,
    "local-timestamp-millis": Annotated[datetime, timestamp(Unit.MILLIS, local=True)],
    "local-timestamp-micros": Annotated[datetime, timestamp(Unit.MICROS, local=True)],
    "uuid": UUID,
}


def annotation(schema: Any) -> Any:
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    if isinstance(schema, list):
        joined = annotation(schema[0])
        for branch in schema[1:]:
            joined = joined | annotation(branch) if joined is not None else annotation(branch) | None
        return joined
    if schema.get("logicalType") == "decimal":
        return Annotated[
            Decimal, decimal(schema["precision"], schema["scale"], schema.get("size"), schema.get("name"))
        ]
    if "logicalType" in schema:
        return LOGICAL[schema["logicalType"]]
    match schema["type"]:
        case "array":
            return list[annotation(schema["items"])]  # type: ignore[misc]
        case "map":
            return dict[str, annotation(schema["values"])]  # type: ignore[misc]
        case "fixed":
            return Annotated[bytes, fixed(schema["size"], schema["name"])]
        case "enum":
            made = enum.Enum(schema["name"], schema["symbols"])  # type: ignore[misc]
            return named(name=schema["name"])(made)
        case _:
            return class_of(schema)


def class_of(schema: Any) -> Any:
    fields = {field["name"]: annotation(field["type"]) for field in schema["fields"]}
    cls = type(schema["name"], (), {"__annotations__": fields})
    return record(namespace="test")(cls)


def plain(value: Any) -> Any:
    """An instance as the dict that the plain codec gives."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@given(st.data())
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
def test_a_class_reads_and_writes_what_plain_values_do(data: st.DataObject) -> None:
    schema = data.draw(record_schemas())
    value = data.draw(values(schema))
    parsed = avro.parse(json.dumps(schema))
    cls = class_of(schema)
    of_class, of_dict = avro.codec(parsed, None, cls), avro.codec(parsed)
    encoded = of_dict.encode(value)
    instance = of_class.decode(encoded)
    assert type(instance) is cls
    assert plain(instance) == value
    assert of_class.encode(instance) == encoded


@given(record_schemas())
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
def test_the_schema_of_a_class_reads_what_it_was_made_from(schema: Any) -> None:
    parsed = avro.parse(json.dumps(schema))
    of_class = avro.parse(avro.schema_of(class_of(schema)))
    assert avro.incompatibilities(of_class, parsed) == ()
    assert avro.incompatibilities(parsed, of_class) == ()


@given(st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
def test_the_class_of_a_schema_reads_and_writes_its_messages(data: st.DataObject) -> None:
    schema = data.draw(record_schemas())
    parsed = avro.parse(json.dumps(schema))
    cls = avro.record_class(parsed)
    again = avro.parse(avro.schema_of(cls))
    assert avro.incompatibilities(again, parsed) == avro.incompatibilities(parsed, again) == ()
    payload = avro.codec(parsed).encode(data.draw(values(schema)))
    codec = avro.codec(parsed, None, cls)
    assert codec.encode(codec.decode(payload)) == payload
