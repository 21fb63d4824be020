"""Random schemas and data: what we decode is what fastavro reads, and what we encode is what was decoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.arrow.avro_cases import read_by_fastavro, roots, same, schema_text, values, written

from dragoman.pipeline.arrow import Decoder, Encoder, Mapping

MODEST = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


@st.composite
def messages(draw: Any) -> tuple[Any, list[Any]]:
    schema = draw(roots())
    return schema, draw(st.lists(values(schema), min_size=1, max_size=5))


@given(messages())
@MODEST
def test_what_is_decoded_is_what_fastavro_reads(case: tuple[Any, list[Any]]) -> None:
    schema, rows = case
    frames = [written(schema, row, 1) for row in rows]
    text = schema_text(schema)

    decoder = Decoder(text, {1: text}.__getitem__)
    plan: Any = decoder.plan(1)

    decoded = decoder.decode(pa.array(frames, pa.binary()))

    assert decoded.rejections == {}
    assert not plan._bad_before, "valid data was not read vectorised"
    decoded.values.validate(full=True)
    for frame, cell in zip(frames, decoded.values.to_pylist(), strict=True):
        assert same(schema, read_by_fastavro(schema, schema, frame[5:]), cell)


@given(messages())
@MODEST
def test_what_was_decoded_is_encoded_to_the_same_bytes(case: tuple[Any, list[Any]]) -> None:
    schema, rows = case
    frames = [written(schema, row, 1) for row in rows]
    text = schema_text(schema)
    decoded = Decoder(text, {1: text}.__getitem__, Mapping()).decode(pa.array(frames, pa.binary()))

    encoded = Encoder(text, 1).encode(decoded.values)

    assert encoded.rejections == {}
    assert encoded.frames.to_pylist() == frames
