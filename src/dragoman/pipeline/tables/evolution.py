"""How a table's columns follow a contract's versions: added, dropped, promoted, never rewritten."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

import pyarrow as pa

from dragoman.pipeline.tables.table import Layout


def evolved(existing: Any, wanted: Any) -> Layout:
    """The existing columns in their order, widened where wanted, then the new ones.

    A column whose type changed in a way that no table format can hold, such as from whole numbers to
    fractions, stays as it is, and the new values get a column of their own beside it: ``amount_2``.
    """
    columns = {field.name: field.type for field in existing}
    own = set(wanted.names)
    renamed: list[tuple[str, str]] = []
    for field in wanted:
        name, kind = _place(columns, field.name, field.type, own)
        columns[name] = kind
        if name != field.name:
            renamed.append((field.name, name))
    return Layout(pa.schema([pa.field(name, kind) for name, kind in columns.items()]), tuple(renamed))


def _place(columns: dict[str, Any], name: str, kind: Any, own: set[str]) -> tuple[str, Any]:
    """The first column, of this name or numbered, that can take values of the type.

    A numbered one that the contract has as a field of its ``own`` is that field's.
    """
    numbered = (f"{name}_{number}" for number in count(2))
    for candidate in chain((name,), (each for each in numbered if each not in own)):
        if candidate not in columns:
            return candidate, kind
        joint = _joint(columns[candidate], kind)
        if joint is not None:
            return candidate, joint
    raise AssertionError("there is always one more number")


def _joint(old: Any, new: Any) -> Any | None:
    """A type that holds values of both, ``None`` if a table cannot get from one to the other."""
    if old.equals(new):
        return old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _joint_struct(old, new)
    if _is_list(old) and _is_list(new):
        inner = _joint(old.value_type, new.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_map(old) and pa.types.is_map(new):
        inner = _joint(old.item_type, new.item_type)
        return None if inner is None else pa.map_(old.key_type, inner)
    if _widens(old, new):
        return new
    return old if _widens(new, old) or _same_kind(old, new) else None


def _joint_struct(old: Any, new: Any) -> Any | None:
    fields = {field.name: field.type for field in old}
    for field in new:
        joint = _joint(fields[field.name], field.type) if field.name in fields else field.type
        if joint is None:
            return None
        fields[field.name] = joint
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


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
    """Types that differ only in how Arrow lays them out.

    A moment in time and a local time, which has no zone, are not of one kind.
    """
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new):
        return (old.tz is None) == (new.tz is None)
    tests = (_is_text, _is_binary, _is_list)
    return any(test(old) and test(new) for test in tests)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind))
