from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow import Decoded, Decoder, Encoder, Mapping, SchemaText
from dragoman.schema.framing import frame

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number", "minimum": 0},
        "note": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        "address": {"$ref": "#/definitions/address"},
        "any": {"type": ["integer", "string"]},
    },
    "required": ["id"],
    "definitions": {"address": {"type": "object", "properties": {"zip": {"type": "integer"}}}},
}
ROW = {
    "id": 1,
    "amount": 2,
    "note": None,
    "at": "2026-01-31T08:00:00+00:00",
    "tags": ["a"],
    "scores": {"x": 1.5},
    "address": {"zip": 7},
    "any": "text",
}


def text(schema: Any) -> SchemaText:
    return SchemaText("JSON", json.dumps(schema))


def decoded(rows: list[bytes], mapping: Mapping | None = None, reader: Any = SCHEMA) -> Decoded:
    decoder = Decoder(text(reader), {1: text(SCHEMA)}.__getitem__, mapping)
    return decoder.decode(pa.array([frame(1, row) for row in rows], pa.binary()))


def test_documents_become_typed_columns() -> None:
    found = decoded([json.dumps(ROW).encode()]).values[0].as_py()

    assert found == ROW | {
        "amount": 2.0,
        "at": datetime(2026, 1, 31, 8, tzinfo=UTC),
        "scores": [("x", 1.5)],
        "any": '"text"',
    }


def test_a_bad_document_is_rejected_alone() -> None:
    rows = [b'{"id": 1}', b"{", b'{"amount": 1}', b'{"id": 1, "amount": -1}', b'{"id": 99999999999999999999}']

    found = decoded(rows)

    assert set(found.rejections) == {1, 2, 3, 4}
    assert all(each.code.startswith("message.") and each.reason for each in found.rejections.values())
    assert found.rejections[4].path == "id"
    assert found.values[0].as_py()["id"] == 1


def test_what_no_column_can_hold_is_rejected_alone() -> None:
    """Half of a surrogate pair, a number beyond all doubles, a time before the first year."""
    huge = b'{"id": 1, "amount": ' + b"9" * 400 + b"}"
    rows = [
        rb'{"id": 1, "note": "\ud800"}',
        huge,
        b'{"id": 1, "at": "0001-01-01T00:00:00+14:00"}',
        b'{"id": 7}',
    ]

    for mapping in (Mapping(), Mapping(unions="variant")):
        found = decoded([*rows, rb'{"id": 1, "any": "\ud800"}'], mapping)
        assert found.values[3].as_py()["id"] == 7
        assert {0, 1, 4} <= found.rejections.keys() and 3 not in found.rejections


def test_a_row_that_cannot_be_written_is_rejected_alone() -> None:
    column = pa.array([{"id": 1, "any": "no JSON"}, {"id": 2, "any": "3"}])

    found = Encoder(text(SCHEMA), 1).encode(column)

    assert list(found.rejections) == [0] and found.rejections[0].code == "message.encode.type"
    assert json.loads(found.frames[1].as_py()[5:]) == {"id": 2, "any": 3}


def test_rows_are_written_as_documents_that_fit_the_schema() -> None:
    values = decoded([json.dumps(ROW).encode(), b'{"id": 2}']).values

    encoded = Encoder(text(SCHEMA), 1).encode(values)

    assert encoded.rejections == {}
    first, second = (json.loads(each[5:]) for each in encoded.frames.to_pylist())
    assert first == {name: cell for name, cell in ROW.items() if cell is not None}
    assert second == {"id": 2}


def test_a_document_may_be_kept_whole() -> None:
    decoder = Decoder(None, {1: text(SCHEMA)}.__getitem__, Mapping(whole="json"))

    found = decoder.decode(pa.array([frame(1, b'{"id": 1}')], pa.binary()))

    assert found.values.to_pylist() == [{"value": '{"id":1}'}]
