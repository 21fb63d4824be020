"""Damaged messages: never a wrong value, never a word about a good neighbour."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.arrow.avro_cases import read_by_fastavro, same, schema_text, written

from dragoman.pipeline.arrow import Decoder, Reason
from dragoman.schema.framing import frame

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "prices", "type": {"type": "map", "values": ["null", "double", "string"]}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {
            "name": "address",
            "type": {"type": "record", "name": "Address", "fields": [{"name": "zip", "type": "int"}]},
        },
    ],
}
ROW = {
    "id": 300,
    "count": 7,
    "name": "n\u00e9",
    "paid": True,
    "note": (1, "hi"),
    "state": "PAID",
    "tags": ["a", "bc"],
    "prices": {"k": (1, 2.5), "z": (0, None), "y": (2, "s")},
    "total": b"\x01\x00",
    "address": {"zip": 1234},
}
TEXT = schema_text(SCHEMA)


def decoder() -> Decoder:
    return Decoder(TEXT, {1: TEXT}.__getitem__)


def damaged(data: Any, good: bytes) -> bytes:
    position = data.draw(st.integers(5, len(good) - 1))
    match data.draw(st.sampled_from(["change", "cut", "insert", "remove"])):
        case "change":
            return good[:position] + bytes([data.draw(st.integers(0, 255))]) + good[position + 1 :]
        case "cut":
            return good[:position]
        case "insert":
            return good[:position] + data.draw(st.binary(min_size=1, max_size=3)) + good[position:]
        case _:
            return good[:position] + good[position + 1 :]


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_a_damaged_message_is_rejected_or_read_as_fastavro_reads_it(data: Any) -> None:
    good = written(SCHEMA, ROW, 1)
    bad = damaged(data, good)

    decoded = decoder().decode(pa.array([good, bad, good], pa.binary()))

    assert set(decoded.rejections) <= {1}
    cells = decoded.values.to_pylist()
    expected = read_by_fastavro(SCHEMA, SCHEMA, good[5:])
    assert same(SCHEMA, expected, cells[0]) and same(SCHEMA, expected, cells[2])
    if not decoded.rejections:
        assert same(SCHEMA, read_by_fastavro(SCHEMA, SCHEMA, bad[5:]), cells[1])


def test_bad_rows_anywhere_in_a_large_batch_are_the_only_ones_rejected() -> None:
    good = [written(SCHEMA, ROW | {"id": number}, 1) for number in range(5_000)]
    chosen = random.Random(7).sample(range(5_000), 60)
    frames = list(good)
    for place, row in enumerate(chosen):
        frames[row] = [good[row][:-1], good[row] + b"\0", b"", b"\1" + good[row][1:]][place % 4]
    reader = decoder()

    for _ in range(2):
        decoded = reader.decode(pa.array(frames, pa.binary()))

        assert set(decoded.rejections) == set(chosen)
        ids = decoded.values.field("id").to_pylist()
        assert [ids[row] for row in range(5_000) if row not in set(chosen)] == [
            row for row in range(5_000) if row not in set(chosen)
        ]
        assert decoded.values.null_count == len(chosen)
    assert reader.decode(pa.array(good, pa.binary())).rejections == {}


def test_a_batch_of_bad_rows_only_is_rejected_whole() -> None:
    frames = [written(SCHEMA, ROW, 1)[:-1]] * 100

    decoded = decoder().decode(pa.array(frames, pa.binary()))

    assert len(decoded.rejections) == 100 and decoded.values.null_count == 100


LONG_64 = b"\xff" * 9 + b"\x01"
FIELD = "value"
CASES: list[tuple[Any, bytes, Reason]] = [
    ("long", b"", Reason.TRUNCATED),
    ("long", b"\x80" * 11, Reason.NUMBER),
    ("int", LONG_64, Reason.RANGE),
    ("boolean", b"\x02", Reason.BOOLEAN),
    ("string", b"\x02\xff", Reason.TEXT),
    ("string", b"\x01", Reason.LENGTH),
    ("string", b"\x08ab", Reason.TRUNCATED),
    ("long", b"\x02\x02", Reason.TRAILING),
    (["null", "long"], b"\x04", Reason.UNION),
    (["null", "long"], b"\x01", Reason.UNION),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", Reason.ENUM),
    ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\x0f\x00", Reason.LENGTH),
    ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\x0f\x00", Reason.LENGTH),
    ({"type": "map", "values": "long"}, b"\x02\x02\xff\x02\x00", Reason.TEXT),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x02\x7f", Reason.DECIMAL),
    ({"type": "string", "logicalType": "uuid"}, b"\x04ab", Reason.UUID),
    ({"type": "int", "logicalType": "time-millis"}, b"\x01", Reason.TIME),
    ({"type": "long", "logicalType": "timestamp-millis"}, LONG_64, Reason.RANGE),
    ({"type": "fixed", "name": "F", "size": 3}, b"ab", Reason.TRUNCATED),
]


@pytest.mark.parametrize(("type", "payload", "reason"), CASES, ids=str)
def test_each_kind_of_damage_has_its_code_and_place(type: Any, payload: bytes, reason: Reason) -> None:
    text = schema_text({"type": "record", "name": "R", "fields": [{"name": FIELD, "type": type}]})

    decoded = Decoder(text, {1: text}.__getitem__).decode(pa.array([frame(1, payload)], pa.binary()))

    assert decoded.rejections[0].code == reason
    assert decoded.rejections[0].path.startswith("" if reason is Reason.TRAILING else FIELD)


def test_frames_that_are_none_have_codes_of_their_own() -> None:
    frames = [None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", b"\0\xff\0\0\1x", frame(2, b"x")]

    decoded = decoder().decode(pa.array(frames, pa.binary()))

    assert {row: found.code for row, found in decoded.rejections.items()} == {
        1: Reason.FRAME_TRUNCATED,
        2: Reason.FRAME_TRUNCATED,
        3: Reason.FRAME_FOREIGN,
        4: Reason.FRAME_FOREIGN,
        5: Reason.UNKNOWN_SCHEMA,
    }
    assert decoded.schema_ids.to_pylist() == [None, None, None, None, None, 2]
    assert decoded.values.null_count == 6
