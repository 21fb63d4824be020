from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.arrow.avro_cases import schema_text, written

from dragoman.core.errors import EncodeError
from dragoman.pipeline.arrow import Encoder, Reason


def record(*fields: tuple[Any, ...]) -> dict[str, Any]:
    listed = [{"name": f[0], "type": f[1]} | ({"default": f[2]} if len(f) > 2 else {}) for f in fields]
    return {"type": "record", "name": "R", "fields": listed}


def rows(type: Any, cells: list[Any]) -> Any:
    return pa.StructArray.from_arrays([pa.array(cells, type)], ["a"])


NIL = "00000000-0000-0000-0000-000000000000"
NUMBERS = pa.map_(pa.string(), pa.int64())
BAD: list[tuple[Any, Any, list[Any], Reason]] = [
    ("long", pa.int64(), [1, None], Reason.ENCODE_NULL),
    ("int", pa.int64(), [1, 2**31], Reason.ENCODE_RANGE),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string(), ["A", "B"], Reason.ENCODE_ENUM),
    ({"type": "array", "items": "long"}, pa.list_(pa.int64()), [[1], [None]], Reason.ENCODE_NULL),
    (
        {"type": "map", "values": "long"},
        pa.map_(pa.string(), pa.int64()),
        [[], [("k", None)]],
        Reason.ENCODE_NULL,
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        pa.decimal128(10, 2),
        [Decimal("1.50"), Decimal("1.55")],
        Reason.ENCODE_DECIMAL,
    ),
    ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), [b"ab", b"abc"], Reason.ENCODE_LENGTH),
    (
        {"type": "string", "logicalType": "uuid"},
        pa.string(),
        [NIL, "x"],
        Reason.ENCODE_UUID,
    ),
    ({"type": "int", "minimum": 5}, pa.int32(), [5, 4], Reason.CONSTRAINT),
    (
        ["long", "string"],
        pa.struct([("long", pa.int64()), ("string", pa.string())]),
        [{"long": 1}, {"long": 1, "string": "x"}],
        Reason.ENCODE_UNION,
    ),
]


@pytest.mark.parametrize(("type", "column", "cells", "reason"), BAD, ids=[str(case[3]) for case in BAD])
def test_a_row_that_breaks_the_contract_is_not_written(
    type: Any, column: Any, cells: Any, reason: Reason
) -> None:
    encoded = Encoder(schema_text(record(("a", type))), 1).encode(rows(column, cells))

    assert {row: found.code for row, found in encoded.rejections.items()} == {1: reason}
    assert encoded.rejections[1].path.startswith("a")
    assert encoded.frames[0].is_valid and not encoded.frames[1].is_valid


def test_nulls_under_a_null_parent_are_no_fault() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long"}]}
    column = pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))

    schema = record(("a", ["null", inner]))

    encoded = Encoder(schema_text(schema), 1).encode(pa.StructArray.from_arrays([column], ["a"]))

    assert encoded.rejections == {}
    assert encoded.frames.to_pylist() == [
        written(schema, {"a": (1, {"x": 1})}, 1),
        written(schema, {"a": (0, None)}, 1),
    ]


def test_a_missing_column_is_written_as_the_default() -> None:
    schema = record(("a", "long"), ("b", "string", "x"), ("c", ["null", "int"], None))

    encoded = Encoder(schema_text(schema), 1).encode(rows(pa.int64(), [7]))

    assert encoded.frames.to_pylist() == [written(schema, {"a": 7, "b": "x", "c": (0, None)}, 1)]


def test_columns_that_can_never_fit_are_refused_with_all_reasons_at_once() -> None:
    encoder = Encoder(schema_text(record(("a", "long"), ("b", "string"))), 1)

    with pytest.raises(EncodeError, match=r"a: string given, long needed; .*b: missing") as caught:
        encoder.encode(pa.StructArray.from_arrays([pa.array(["x"]), pa.array([1])], ["a", "z"]))

    assert caught.value.code == "message.encode.columns"
    assert "z: not in the contract" in str(caught.value)


def test_a_column_of_nothing_but_nulls_needs_no_type() -> None:
    schema = record(("a", ["null", "string"]))

    encoded = Encoder(schema_text(schema), 1).encode(rows(pa.null(), [None]))

    assert encoded.frames.to_pylist() == [written(schema, {"a": (0, None)}, 1)]


def test_a_slice_of_a_table_is_written_as_itself() -> None:
    schema = record(("a", {"type": "array", "items": ["null", "string"]}))
    column = rows(pa.list_(pa.string()), [["x"], ["y", None], ["z"]]).slice(1, 1)

    encoded = Encoder(schema_text(schema), 1).encode(column)

    assert encoded.frames.to_pylist() == [written(schema, {"a": [(1, "y"), (0, None)]}, 1)]
