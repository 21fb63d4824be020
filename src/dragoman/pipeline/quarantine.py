"""The quarantine: every message that could not become a row, whole, with the reason."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("channel", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
        ("schema_id", pa.int64()),
        ("frame", pa.binary()),
        ("code", pa.string()),
        ("reason", pa.string()),
        ("path", pa.string()),
        ("pipeline", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
    ]
)


def quarantine_rows(batch: Any, pipeline: str) -> Any:
    """Rejected rows of the source, as rows of the quarantine."""
    meta, error = batch.column("_meta"), batch.column("_error")
    now = pa.scalar(int(time.time() * 1_000_000), pa.timestamp("us", tz="UTC"))
    count = batch.num_rows
    columns = {
        "frame": batch.column("_frame"),
        "code": error.field("code"),
        "reason": error.field("reason"),
        "path": error.field("path"),
        "pipeline": pa.repeat(pipeline, count),
        "time": pa.repeat(now, count),
    }
    known = {meta.type.field(index).name for index in range(meta.type.num_fields)}
    arrays = [columns[field.name] if field.name in columns else _of(meta, field, known) for field in SCHEMA]
    fitting = [array.cast(field.type) for array, field in zip(arrays, SCHEMA, strict=True)]
    return pa.record_batch(fitting, schema=SCHEMA)


def _of(meta: Any, field: Any, known: set[str]) -> Any:
    return meta.field(field.name) if field.name in known else pa.nulls(len(meta), field.type)
