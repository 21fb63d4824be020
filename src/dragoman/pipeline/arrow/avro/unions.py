"""Unions of several types as columns: a struct with a member for each branch, null but for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.pipeline.arrow.arrays import fixed_width, null_mask, pick, struct, valid_mask
from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.tree import NULL, Union
from dragoman.pipeline.arrow.avro.wire import WRAPPED
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection


def branches_of(array: Any) -> tuple[Any, list[Any]]:
    """The branch of each row, -1 where there is none, and the branches' arrays, as long as the union's."""
    if pa.types.is_union(array.type):
        tags = fixed_width_tags(array)
        return tags, [_unwrapped(array.field(i)) for i in range(array.type.num_fields)]
    tags = fixed_width(array.field(0), np.int8).copy()
    for valid in (valid_mask(array), valid_mask(array.field(0))):
        if valid is not None:
            tags[~valid] = -1
    return tags, [array.field(i) for i in range(1, array.type.num_fields)]


def fixed_width_tags(array: Any) -> Any:
    return array.type_codes.to_numpy(zero_copy_only=False).astype(np.int8)


def _unwrapped(array: Any) -> Any:
    type = array.type
    wrapped = pa.types.is_struct(type) and type.num_fields == 1 and type.field(0).name == WRAPPED
    return array.field(0) if wrapped else array


def from_union(resolvers: list[Resolver | None], type: Any, path: str) -> Resolver:
    """Each branch by its own resolver; a row of a branch without one is rejected."""
    rejection = Rejection(Reason.UNION, "The reader has no type for this branch of the union.", path)

    def resolve(array: Any, faults: list[Fault]) -> Any:
        tags, branches = branches_of(array)
        columns: list[Any] = []
        choice: Any = np.full(len(tags), -1, dtype=np.int64)
        for index, resolver in enumerate(resolvers):
            mine = tags == index
            if not mine.any():
                continue
            if resolver is None:
                faults.append(Fault(mine, rejection))
                continue
            inner: list[Fault] = []
            columns.append(resolver(branches[index], inner))
            choice[mine] = len(columns) - 1
            faults += [Fault(each.mask & mine, each.rejection) for each in inner]
        return pick(columns, choice) if columns else pa.nulls(len(tags), type)

    return resolve


def into_union(target: Union, index: int, resolver: Resolver, type: Any) -> Resolver:
    """All values are in one branch of the reader's union."""
    if target.branches[index] == NULL:
        return lambda array, faults: pa.nulls(len(array), type)
    member = [each for each in target.branches if each != NULL].index(target.branches[index])

    def resolve(array: Any, faults: list[Fault]) -> Any:
        nulls = null_mask(array)
        children = [pa.nulls(len(array), each.type) for each in type]
        children[member] = resolver(array, faults)
        return struct(children, type, nulls, len(array))

    return resolve
