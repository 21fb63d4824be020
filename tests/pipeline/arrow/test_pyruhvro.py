"""What the decoder relies on in the vectorised reader, so that an upgrade cannot change it unseen."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyruhvro
import pytest


def schema(type: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type}]})


def test_text_is_not_checked_so_any_bytes_may_be_read_as_text() -> None:
    column = pyruhvro.deserialize_array([b"\x04\xff\xfe", b"\x02a"], schema("string")).column(0)

    assert column.buffers()[2].to_pybytes()[:3] == b"\xff\xfea"


def test_any_bytes_may_be_written_as_text() -> None:
    raw = pa.array([b"\xff\xfe"], pa.binary())
    text = pa.StringArray.from_buffers(1, raw.buffers()[1], raw.buffers()[2])

    found = pyruhvro.serialize_record_batch(pa.record_batch([text], names=["a"]), schema("string"), 1)

    assert found[0].to_pylist() == [b"\x04\xff\xfe"]


def test_floats_and_doubles_keep_every_bit() -> None:
    halves = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(["double", "float"])]
    rows = [os.urandom(12) for _ in range(500)] + [b"\xff" * 12, b"\x01\0\0\0\0\0\xf0\x7f\x01\0\x80\x7f"]

    batch = pyruhvro.deserialize_array(rows, json.dumps({"type": "record", "name": "R", "fields": halves}))

    first = np.frombuffer(batch.column(0).buffers()[1], np.uint8)[: 8 * len(rows)].reshape(-1, 8)
    second = np.frombuffer(batch.column(1).buffers()[1], np.uint8)[: 4 * len(rows)].reshape(-1, 4)
    assert np.concatenate([first, second], axis=1).tobytes() == b"".join(rows)


def test_bytes_behind_a_value_are_ignored_and_so_need_the_end_mark() -> None:
    assert pyruhvro.deserialize_array([b"\x02\x99\x99"], schema("long")).column(0).to_pylist() == [1]


@pytest.mark.parametrize("row", [b"", b"\x80" * 12], ids=["truncated", "endless"])
def test_one_bad_row_fails_the_call(row: bytes) -> None:
    with pytest.raises(ValueError):
        pyruhvro.deserialize_array([b"\x02", row], schema("long"))
