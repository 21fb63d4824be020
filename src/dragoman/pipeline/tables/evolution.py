"""How a table's columns follow a contract's versions: added, dropped, promoted, never rewritten."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dragoman.core.errors import IncompatibleSchema


def merged(existing: Any, wanted: Any, table: str) -> Any:
    """The existing columns in their order, widened where wanted, then the new ones."""
    fields = [
        _field(field, wanted.field(field.name), table, field.name)
        if wanted.get_field_index(field.name) >= 0
        else field
        for field in existing
    ]
    known = set(existing.names)
    return pa.schema([*fields, *(field for field in wanted if field.name not in known)])


def _field(old: Any, new: Any, table: str, path: str) -> Any:
    return pa.field(old.name, _type(old.type, new.type, table, path), nullable=True)


def _type(old: Any, new: Any, table: str, path: str) -> Any:
    if old.equals(new):
        return old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        before, after = pa.schema(list(old)), pa.schema(list(new))
        return pa.struct(list(merged(before, after, table)))
    if _is_list(old) and _is_list(new):
        return pa.list_(_type(old.value_type, new.value_type, table, f"{path}[]"))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, _type(old.item_type, new.item_type, table, f"{path}{{}}"))
    if _widens(old, new):
        return new
    if _widens(new, old) or _same_kind(old, new):
        return old
    raise IncompatibleSchema(
        f"The column is {old} in the table and {new} in the contract's version.",
        code="schema.incompatible.table",
        next="Read another version, or write to a new table.",
        table=table,
        column=path,
    )


def _widens(old: Any, new: Any) -> bool:
    """Whether every value of ``old`` can be kept in ``new`` by all table formats."""
    integers = pa.types.is_signed_integer(old) and pa.types.is_signed_integer(new)
    floats = pa.types.is_floating(old) and pa.types.is_floating(new)
    if integers or floats:
        return bool(old.bit_width <= new.bit_width)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return False


def _same_kind(old: Any, new: Any) -> bool:
    """Types that differ only in how Arrow lays them out."""
    tests = (_is_text, _is_binary, _is_list, pa.types.is_timestamp)
    return any(test(old) and test(new) for test in tests)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind))
