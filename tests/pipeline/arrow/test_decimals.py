"""Decimals of every precision: columns hold exactly what the client reads, and refuse what it refuses."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import MessageError
from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow import Decoder, Reason, SchemaText
from dragoman.pipeline.arrow.encoder import Encoder
from dragoman.schema.framing import frame

EXACT = Context(prec=200)
FORMAT = load(FORMATS, "AVRO")()


def record(type: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "d", "type": type}]})


def in_bytes(precision: int, scale: int) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def in_fixed(precision: int, scale: int, size: int) -> Any:
    return in_bytes(precision, scale) | {"type": "fixed", "name": "D", "size": size}


def needed(number: int) -> int:
    return ((number if number >= 0 else ~number).bit_length() + 8) // 8


def as_bytes(number: int, pad: int = 0) -> bytes:
    size = needed(number) + pad
    return bytes([2 * size]) + number.to_bytes(size, "big", signed=True)


def columns(writer: str, payloads: list[bytes], reader: str | None = None) -> tuple[list[Any], Any]:
    """A value for each payload; what was refused is the reason's code."""
    decoder = Decoder(SchemaText("AVRO", reader or writer), {1: SchemaText("AVRO", writer)}.__getitem__)
    found = decoder.decode(pa.array([frame(1, each) for each in payloads], pa.binary()))
    found.values.validate(full=True)
    values = found.values.to_pylist()
    refused = {row: each.code for row, each in found.rejections.items()}
    return [refused[i] if i in refused else each["d"] for i, each in enumerate(values)], found.values


def client(schema: str, payloads: list[bytes]) -> list[Any]:
    codec = FORMAT.codec(FORMAT.parse(schema))
    values: list[Any] = []
    for each in payloads:
        try:
            values.append(codec.decode(each)["d"])
        except MessageError:
            values.append(Reason.DECIMAL)
    return values


def ends(precision: int) -> list[int]:
    most = 10**precision - 1
    others = (0, 1, -1, most // 2, most, -most, most + 1, -most - 1, 2**127 - 1, -(2**127))
    return list(dict.fromkeys(others))


@pytest.mark.parametrize("precision", range(1, 39))
def test_both_ends_of_every_precision(precision: int) -> None:
    for scale in {0, precision // 2, precision}:
        schema, numbers = record(in_bytes(precision, scale)), ends(precision)
        expected = [
            Decimal(each).scaleb(-scale, EXACT) if abs(each) < 10**precision else Reason.DECIMAL
            for each in numbers
        ]
        for payloads in ([as_bytes(each) for each in numbers], [as_bytes(each, 9) for each in numbers]):
            found, _ = columns(schema, payloads)
            assert found == client(schema, payloads) == expected
        fixed = record(in_fixed(precision, scale, 16))
        payloads = [each.to_bytes(16, "big", signed=True) for each in numbers]
        assert columns(fixed, payloads)[0] == client(fixed, payloads) == expected


@pytest.mark.parametrize("precision", range(1, 39))
def test_both_ends_of_every_precision_are_written(precision: int) -> None:
    numbers = [each for each in ends(precision) if abs(each) < 10**precision]
    for type in (in_bytes(precision, 1), in_fixed(precision, 1, 16)):
        schema = record(type)
        payloads = [
            as_bytes(each) if type["type"] == "bytes" else each.to_bytes(16, "big", signed=True)
            for each in numbers
        ]
        _, rows = columns(schema, payloads)
        encoded = Encoder(SchemaText("AVRO", schema), 1).encode(rows)
        assert encoded.frames.to_pylist() == [frame(1, each) for each in payloads]


digits = st.integers(1, 38).flatmap(
    lambda precision: st.tuples(st.just(precision), st.integers(0, precision))
)


@given(digits, digits, st.data())
def test_a_decimal_of_another_precision_and_scale_is_exact_or_refused(
    written: tuple[int, int], read: tuple[int, int], data: st.DataObject
) -> None:
    most = 10 ** written[0] - 1
    near = st.builds(lambda power, by: 10**power + by, st.integers(0, written[0]), st.integers(-1, 1))
    number = st.one_of(st.integers(-most, most), near.map(lambda each: min(each, most)))
    numbers = data.draw(st.lists(number, min_size=1, max_size=5))
    writer, reader = record(in_bytes(*written)), record(in_bytes(*read))

    found, _ = columns(writer, [as_bytes(each) for each in numbers], reader)

    for each, value in zip(numbers, found, strict=True):
        scaled, rest = divmod(abs(each) * 10 ** read[1], 10 ** written[1])
        if rest or scaled >= 10 ** read[0]:
            assert value == Reason.DECIMAL
        else:
            assert value == Decimal(each).scaleb(-written[1], EXACT)


@pytest.mark.parametrize("size", range(1, 17))
def test_a_fixed_too_small_for_its_precision_is_no_decimal(size: int) -> None:
    """By the specification the logical type is then ignored."""
    most = len(str(2 ** (8 * size - 1) - 1)) - 1
    payloads = [b"\x01" * size, b"\xff" * size]
    for precision in (most, most + 1, 38):
        schema = record(in_fixed(precision, 0, size))
        found, rows = columns(schema, payloads)
        assert found == client(schema, payloads)
        assert pa.types.is_decimal(rows.type.field("d").type) == (precision <= most)
        encoded = Encoder(SchemaText("AVRO", schema), 1).encode(rows)
        assert encoded.frames.to_pylist() == [frame(1, each) for each in payloads]
