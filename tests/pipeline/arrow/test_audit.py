from __future__ import annotations

import pyarrow as pa
from tests.pipeline.arrow.avro_cases import schema_text, written

from dragoman.pipeline.arrow import Decoder, Finding, Reason, audit


def schema(*symbols: str) -> dict[str, object]:
    type = {"type": "enum", "name": "E", "symbols": list(symbols)}
    return {"type": "record", "name": "R", "fields": [{"name": "e", "type": type}]}


OLD, NEW = schema("A", "B"), schema("A")


def test_an_audit_counts_by_schema_partition_and_reason_with_examples() -> None:
    decoder = Decoder(schema_text(NEW), {1: schema_text(OLD)}.__getitem__)
    frames = pa.array([written(OLD, {"e": each}, 1) for each in "ABAB"] + [b"?"], pa.binary())

    first = audit(decoder, [(0, [10, 11, 12, 13, 14], frames)])
    first.merge(audit(decoder, [(1, [0, 1, 2, 3, 4], frames)]))

    broken = Finding(1, 0, Reason.ENUM, "e")
    assert first.counts[Finding(1, 0, "", "")] == 2
    assert first.counts[broken] == 2
    assert [offset for offset, _ in first.samples[broken]] == [11, 13]
    assert (first.read, first.failed) == (10, 6)
    assert first.counts[Finding(-1, 1, Reason.FRAME_TRUNCATED, "")] == 1
