"""Values of a codec as columns: for each type its Arrow type, and the way in and out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow.rejection import Malformed
from dragoman.pipeline.arrow.variant import VARIANT_TYPE, to_json, to_variant


@dataclass(frozen=True, slots=True)
class Column:
    """``inward`` shapes a value for Arrow, ``outward`` makes it the codec's again."""

    type: Any
    inward: Callable[[Any], Any]
    outward: Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


def opaque_column(form: str) -> Column:
    if form == "variant":
        return Column(VARIANT_TYPE, lambda value: None if value is None else to_variant(value), same)
    return Column(
        pa.string(),
        lambda value: None if value is None else to_json(value),
        lambda text: None if text is None else json.loads(text),
    )


def struct_column(columns: dict[str, Column]) -> Column:
    def inward(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        return {name: _placed(name, column.inward, value.get(name)) for name, column in columns.items()}

    def outward(row: Any) -> Any:
        if row is None:
            return None
        cells = {name: column.outward(row.get(name)) for name, column in columns.items()}
        return {name: cell for name, cell in cells.items() if cell is not None}

    return Column(pa.struct([(name, column.type) for name, column in columns.items()]), inward, outward)


def _placed(name: str, inward: Callable[[Any], Any], value: Any) -> Any:
    try:
        return inward(value)
    except Malformed as found:
        inner = found.rejection.path
        path = f"{name}.{inner}" if inner else name
        raise Malformed(found.rejection.code, found.rejection.reason, path) from None


def list_column(items: Column) -> Column:
    return Column(
        pa.list_(pa.field("element", items.type)),
        lambda value: None if value is None else [items.inward(each) for each in value],
        lambda row: None if row is None else [items.outward(each) for each in row],
    )


def map_column(values: Column, keys: Column | None = None) -> Column:
    """Keys are text unless told otherwise."""
    kind = pa.string() if keys is None else keys.type
    return Column(
        pa.map_(kind, pa.field("value", values.type)),
        lambda value: None if value is None else [(key, values.inward(each)) for key, each in value.items()],
        lambda row: None if row is None else {key: values.outward(each) for key, each in row},
    )
