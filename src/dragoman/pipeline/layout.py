"""The columns of the source: a contract's own, and what is said about each message."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow.rejection import ERROR_TYPE
from dragoman.pipeline.slices import HEADERS_TYPE

META, ERROR, FRAME = "_meta", "_error", "_frame"
META_TYPE = pa.struct(
    [
        ("channel", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("schema_id", pa.int32()),
        ("contract_version", pa.int32()),
        ("writer_version", pa.int32()),
    ]
)
"""``contract_version`` is the version a row was read as, ``writer_version`` the one it was written as."""


def source_schema(columns: Any, mode: str, include_meta: bool) -> Any:
    """The Arrow schema of the source: a contract's columns, then what is said about each message."""
    fields = (
        [pa.field("frame", pa.binary()), pa.field("schema_id", pa.int32())]
        if mode == "raw"
        else list(columns)
    )
    if include_meta:
        fields.append(pa.field(META, META_TYPE))
    if mode == "quarantine":
        fields += [pa.field(ERROR, ERROR_TYPE), pa.field(FRAME, pa.binary())]
    return pa.schema(fields)
