"""JSON written by people is encoded as the schema wants it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest

from dragoman import record
from dragoman.client.contracts import format_of
from dragoman.client.jsonvalue import encode_json
from dragoman.core.errors import EncodeError
from dragoman.schema import markers


@record
class Line:
    price: Annotated[Decimal, markers.decimal(8, 2)]
    due: date | None = None


@record
class Order:
    id: UUID
    placed: datetime
    at: time
    lines: list[Line]
    tags: dict[str, bytes]
    note: str = ""


def encoded(value: Any) -> Order:
    avro = format_of("AVRO")
    schema = avro.parse(avro.schema_of(Order))
    order: Order = avro.codec(schema, cls=Order).decode(encode_json(avro.codec(schema), value))
    return order


VALUE = {
    "id": "12345678-1234-5678-1234-567812345678",
    "placed": "2026-01-31T12:00:00+00:00",
    "at": "08:15:00",
    "lines": [{"price": "1.25", "due": "2026-02-01"}, {"price": 2, "due": None}],
    "tags": {"a": "x"},
}


def test_texts_become_what_the_fields_want() -> None:
    assert encoded(json.loads(json.dumps(VALUE))) == Order(
        UUID("12345678-1234-5678-1234-567812345678"),
        datetime(2026, 1, 31, 12, tzinfo=UTC),
        time(8, 15),
        [Line(Decimal("1.25"), date(2026, 2, 1)), Line(Decimal("2.00"))],
        {"a": b"x"},
    )


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("placed", "yesterday"), ("id", 7), ("lines", [{"price": "much"}]), ("note", 5), ("at", None)],
)
def test_what_nothing_helps_is_refused_with_its_field(field: str, wrong: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        encoded(VALUE | {field: wrong})
    assert str(caught.value.where["field"]).startswith(field)


def test_the_value_itself_is_left_as_it_is() -> None:
    before = json.dumps(VALUE)
    encoded(VALUE)
    assert json.dumps(VALUE) == before
