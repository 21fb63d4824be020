"""A struct with a member for each branch to a union: exactly one member may have a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.pipeline.arrow.arrays import valid_mask
from dragoman.pipeline.arrow.avro.encode_leaves import add_fault
from dragoman.pipeline.arrow.avro.wire import WRAPPED, repeated
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection

Convert = Callable[[Any, list[Fault], Any], Any]
Problems = Callable[[Any, str], list[str]]


def union_convert(
    kinds: list[str], members: list[str | None], branches: list[Convert], fast: bool, path: str
) -> Convert:
    """``members`` names each branch's column, ``None`` for the branch that is null."""
    wrapped = repeated(kinds)
    several = Rejection(Reason.ENCODE_UNION, "More than one member of the union has a value.", path)
    nothing = Rejection(Reason.ENCODE_NULL, "No member of the union has a value.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        count = len(array)
        columns = [_member(array, name) for name in members]
        tags, found = _tags(array, columns, members)
        if (found > 1).any():
            add_fault(faults, found > 1, live, several)
        if None not in members and (found == 0).any():
            add_fault(faults, found == 0, live, nothing)
        children = []
        for index, (column, branch) in enumerate(zip(columns, branches, strict=True)):
            mine = (tags == index) if live is None else (tags == index) & live
            children.append(branch(column, faults, mine) if members[index] else pa.nulls(count))
        return _sparse(tags, children, wrapped) if fast else _tagged(tags, children)

    return convert


def _member(array: Any, name: str | None) -> Any:
    index = -1 if name is None else array.type.get_field_index(name)
    return pa.nulls(len(array)) if index < 0 else array.field(index)


def _tags(array: Any, columns: list[Any], members: list[str | None]) -> tuple[Any, Any]:
    """The branch of each row, and how many members have a value there."""
    present = valid_mask(array)
    tags: Any = np.full(len(array), members.index(None) if None in members else 0, dtype=np.int8)
    found: Any = np.zeros(len(array), dtype=np.int64)
    for index, column in enumerate(columns):
        if members[index] is None:
            continue
        here = column.is_valid().to_numpy(zero_copy_only=False)
        if present is not None:
            here = here & present
        tags[here] = index
        found += here
    return tags, found


def _sparse(tags: Any, children: list[Any], wrapped: list[bool]) -> Any:
    distinct = [
        pa.StructArray.from_arrays([child], [WRAPPED]) if again else child
        for child, again in zip(children, wrapped, strict=True)
    ]
    return pa.UnionArray.from_sparse(pa.array(tags), distinct, [f"b{i}" for i in range(len(children))])


def _tagged(tags: Any, children: list[Any]) -> Any:
    names = ["tag", *(f"b{i}" for i in range(len(children)))]
    return pa.StructArray.from_arrays([pa.array(tags), *children], names)


def union_problems(members: list[str | None], branches: list[Problems]) -> Problems:
    known = {name: problems for name, problems in zip(members, branches, strict=True) if name is not None}

    def problems(type: Any, place: str) -> list[str]:
        if not pa.types.is_struct(type):
            needed = ", ".join(known)
            return [f"{place}: {type} given, a struct with one of the members {needed} needed"]
        found: list[str] = []
        for each in type:
            inside = f"{place}.{each.name}"
            found += (
                known[each.name](each.type, inside) if each.name in known else [f"{inside}: not in the union"]
            )
        return found

    return problems
