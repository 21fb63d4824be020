"""Batches made to fit a table's schema: columns by name, missing ones null, narrower ones widened."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def fit(batch: Any, schema: Any) -> Any:
    """The record batch with exactly the schema's columns."""
    columns = [
        _column(batch.column(batch.schema.get_field_index(field.name)), field.type)
        if batch.schema.get_field_index(field.name) >= 0
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _column(array: Any, kind: Any) -> Any:
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind):
        names = {array.type.field(index).name for index in range(array.type.num_fields)}
        children = [
            _column(array.field(field.name), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        values = _column(array.values, kind.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
    return array.cast(kind)
