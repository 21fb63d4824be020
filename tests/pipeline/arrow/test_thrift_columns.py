from __future__ import annotations

from typing import Any

import pyarrow as pa

from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Encoder, SchemaText
from dragoman.schema.framing import frame

TEXT = """
enum State { NEW = 0, PAID = 1 }
struct Address { 1: i32 zip }
struct Order {
  1: required i64 id,
  2: optional string customer,
  3: double amount,
  4: State state,
  5: list<string> tags,
  6: map<string, i32> counts,
  7: Address address
}
"""
SCHEMA = SchemaText("THRIFT", TEXT)
ROW: dict[str, Any] = {
    "id": 1,
    "customer": "c",
    "amount": 2.5,
    "state": "PAID",
    "tags": ["a"],
    "counts": {"x": 1},
    "address": {"zip": 7},
}


def payload(row: Any) -> bytes:
    format = load(FORMATS, "THRIFT")()
    found: bytes = format.codec(format.parse(TEXT)).encode(row)
    return found


def test_structs_become_typed_columns_and_structs_again() -> None:
    decoder = Decoder(SCHEMA, {1: SCHEMA}.__getitem__)

    decoded = decoder.decode(pa.array([frame(1, payload(ROW))], pa.binary()))

    assert decoded.rejections == {}
    assert decoded.values.to_pylist() == [ROW | {"counts": [("x", 1)]}]
    encoded = Encoder(SCHEMA, 1).encode(decoded.values)
    assert encoded.rejections == {}
    assert decoder.decode(encoded.frames).values == decoded.values


def test_a_damaged_struct_is_rejected_alone() -> None:
    good = frame(1, payload(ROW))

    decoded = Decoder(SCHEMA, {1: SCHEMA}.__getitem__).decode(pa.array([good, good[:-1], good], pa.binary()))

    assert set(decoded.rejections) == {1}
    assert decoded.values.null_count == 1
