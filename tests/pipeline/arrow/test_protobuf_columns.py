from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dragoman.core.format import Codec
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Encoder, SchemaText
from dragoman.schema.framing import frame

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string customer = 2;
  optional double amount = 3;
  uint64 big = 4;
  State state = 5;
  repeated string tags = 6;
  map<string, int32> counts = 7;
  Address address = 8;
  google.protobuf.Timestamp at = 9;
  enum State { NEW = 0; PAID = 1; }
  message Address { int32 zip = 1; }
}
"""
SCHEMA = SchemaText("PROTOBUF", TEXT)
ROW: dict[str, Any] = {
    "id": 1,
    "customer": "c",
    "amount": 2.5,
    "big": 2**64 - 1,
    "state": "PAID",
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "address": {"zip": 7},
    "at": datetime(2026, 1, 31, 8, tzinfo=UTC),
}


def codec() -> Codec:
    format = load(FORMATS, "PROTOBUF")()
    found: Codec = format.codec(format.parse(TEXT))
    return found


def test_messages_become_typed_columns_and_messages_again() -> None:
    frames = pa.array([frame(1, codec().encode(ROW)), frame(1, codec().encode({"id": 2}))], pa.binary())

    decoded = Decoder(SCHEMA, {1: SCHEMA}.__getitem__).decode(frames)

    assert decoded.rejections == {}
    first, second = decoded.values.to_pylist()
    assert first == ROW | {"counts": [("x", 1)]}
    assert (second["id"], second["amount"], second["tags"], second["address"]) == (2, None, [], None)
    encoded = Encoder(SCHEMA, 1).encode(decoded.values)
    assert encoded.rejections == {}
    assert Decoder(SCHEMA, {1: SCHEMA}.__getitem__).decode(encoded.frames).values == decoded.values


def test_a_damaged_message_is_rejected_alone() -> None:
    good = frame(1, codec().encode(ROW))

    decoded = Decoder(SCHEMA, {1: SCHEMA}.__getitem__).decode(pa.array([good, good[:-1], good], pa.binary()))

    assert set(decoded.rejections) == {1}
    assert decoded.rejections[1].code.startswith("message.decode")
    assert decoded.values.null_count == 1


def test_an_older_message_is_read_as_the_newer_schema() -> None:
    older = SchemaText("PROTOBUF", 'syntax = "proto3"; package shop; message Order { int64 id = 1; }')
    format = load(FORMATS, "PROTOBUF")()
    payload = format.codec(format.parse(older.text)).encode({"id": 5})

    decoded = Decoder(SCHEMA, {1: older}.__getitem__).decode(pa.array([frame(1, payload)], pa.binary()))

    assert decoded.rejections == {}
    assert decoded.values[0].as_py()["id"] == 5 and decoded.values[0].as_py()["customer"] == ""
