"""Rows that a contract does not take, kept with the reason instead of being sent."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

_REASON = [
    pa.field("_code", pa.string()),
    pa.field("_reason", pa.string()),
    pa.field("_path", pa.string()),
    pa.field("_application", pa.string()),
    pa.field("_time", pa.timestamp("us", tz="UTC")),
]


def refused_schema(columns: Any) -> Any:
    return pa.schema([*columns, *_REASON])


def refused_rows(batch: Any, errors: Any, application: str) -> Any:
    """The rows that have an error, with it."""
    mask = errors.is_valid()
    rows, found = batch.filter(mask), errors.filter(mask)
    now = pa.scalar(int(time.time() * 1_000_000), pa.timestamp("us", tz="UTC"))
    added = [
        found.field("code"),
        found.field("reason"),
        found.field("path"),
        pa.repeat(application, len(found)),
        pa.repeat(now, len(found)),
    ]
    return pa.record_batch([*rows.columns, *added], schema=refused_schema(batch.schema))
