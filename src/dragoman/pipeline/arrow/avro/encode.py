"""Compile how columns become a schema's values: what is checked, and in which form they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dragoman.pipeline.arrow.arrays import (
    lift,
    null_mask,
    retyped,
    struct,
    valid_mask,
    with_entries,
    with_values,
)
from dragoman.pipeline.arrow.avro import write
from dragoman.pipeline.arrow.avro.encode_leaves import Leaf, add_fault, leaf_of
from dragoman.pipeline.arrow.avro.encode_union import union_convert, union_problems
from dragoman.pipeline.arrow.avro.target import Opaque, arrow_type, member_names
from dragoman.pipeline.arrow.avro.tree import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    optional,
)
from dragoman.pipeline.arrow.avro.write import RowWriter
from dragoman.pipeline.arrow.constraints import Constrained
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection

Convert = Callable[[Any, list[Fault], Any], Any]
"""Takes a column, collects faults, and the mask of rows that count (``None``: all); gives the wire's form."""
Problems = Callable[[Any, str], list[str]]
Default = Callable[[Field, str], Callable[[int], Any]]


@dataclass(frozen=True, slots=True)
class Form:
    """``problems`` says why columns of a type cannot be written, whatever they hold."""

    convert: Convert
    problems: Problems
    write: RowWriter


class FormCompiler:
    """``fast`` forms are for the vectorised writer, the others for writing row by row."""

    def __init__(self, fast: bool, mapping: Mapping, default: Default) -> None:
        self.fast = fast
        self.mapping = mapping
        self.default = default

    def form(self, target: Any, path: str = "") -> Form:
        if isinstance(target, Union):
            return self._union(target, path)
        if target == NULL:
            return Form(_null_convert(path), _null_problems, write.write_null)
        form = self._inner(target, path)
        if isinstance(target, Opaque) and target.takes_null:
            return Form(form.convert, _or_null(form.problems), form.write)
        return _required(form, path)

    def _inner(self, target: Any, path: str) -> Form:
        """The form of a type where a null has been dealt with."""
        form, type = self._unconstrained(target, path), arrow_type(target, self.mapping)
        constraints = getattr(target, "constraints", ())
        check = Constrained(constraints, type, path) if constraints else None

        def convert(array: Any, faults: list[Fault], live: Any) -> Any:
            if pa.types.is_null(array.type):
                array = pa.nulls(len(array), type)
            if check is not None:
                check(array, faults, live)
            return form.convert(array, faults, live)

        return Form(convert, form.problems, form.write)

    def _unconstrained(self, target: Any, path: str) -> Form:
        match target:
            case Record():
                return self._record(target, path)
            case Array():
                return self._array(target, path)
            case Map():
                return self._map(target, path)
            case _:
                return self._leaf(target, path)

    def _leaf(self, target: Primitive | Fixed | Enum | Opaque, path: str) -> Form:
        leaf = leaf_of(target, self.fast, path)

        def problems(type: Any, place: str) -> list[str]:
            return [] if leaf.accepts(type) else [f"{place}: {type} given, {leaf.expected} needed"]

        return Form(leaf.convert, problems, _leaf_writer(target, leaf))

    def _record(self, target: Record, path: str) -> Form:
        fields = [(each, self.form(each.node, _join(path, each.name))) for each in target.fields]
        defaults = {
            each.name: self.default(each, _join(path, each.name)) for each, _ in fields if each.has_default
        }

        def convert(array: Any, faults: list[Fault], live: Any) -> Any:
            inside = both(live, valid_mask(array))
            children = []
            for each, form in fields:
                index = array.type.get_field_index(each.name)
                column = array.field(index) if index >= 0 else defaults[each.name](len(array))
                children.append(form.convert(column, faults, inside))
            names = [f"f{i}" if self.fast else each.name for i, (each, _) in enumerate(fields)]
            columns = [
                (name, child)
                for name, child in zip(names, children, strict=True)
                if not (self.fast and pa.types.is_null(child.type))
            ]
            type = pa.struct([(name, child.type) for name, child in columns])
            return struct([child for _, child in columns], type, null_mask(array), len(array))

        writer = write.record_writer([(each.name, form.write) for each, form in fields])
        return Form(convert, _record_problems(fields, set(defaults)), writer)

    def _array(self, target: Array, path: str) -> Form:
        items = self.form(target.items, path + "[]")

        def convert(array: Any, faults: list[Fault], live: Any) -> Any:
            inner: list[Fault] = []
            values = items.convert(array.values, inner, None)
            faults += [Fault(masked(lift(array, each.mask), live), each.rejection) for each in inner]
            return with_values(array, values, pa.list_(pa.field("item", values.type)))

        def problems(type: Any, place: str) -> list[str]:
            if not pa.types.is_list(type):
                return [f"{place}: {type} given, an array needed"]
            return items.problems(type.value_type, place + "[]")

        return Form(convert, problems, write.array_writer(items.write))

    def _map(self, target: Map, path: str) -> Form:
        values = self.form(target.values, path + "{}")
        text = pa.string() if self.fast else pa.binary()

        def convert(array: Any, faults: list[Fault], live: Any) -> Any:
            inner: list[Fault] = []
            items = values.convert(array.items, inner, None)
            faults += [Fault(masked(lift(array, each.mask), live), each.rejection) for each in inner]
            return with_entries(array, retyped(array.keys, text), items, pa.map_(text, items.type))

        def problems(type: Any, place: str) -> list[str]:
            if not pa.types.is_map(type) or not pa.types.is_string(type.key_type):
                return [f"{place}: {type} given, a map with text keys needed"]
            return values.problems(type.item_type, place + "{}")

        return Form(convert, problems, write.map_writer(values.write))

    def _union(self, target: Union, path: str) -> Form:
        inner = optional(target)
        if inner is not None:
            form = self._inner(inner, path)
            writer = write.optional_writer(form.write, target.branches[0] == NULL)
            return Form(form.convert, _or_null(form.problems), writer)
        forms = [
            Form(_null_convert(path), _null_problems, write.write_null)
            if each == NULL
            else self._inner(each, path)
            for each in target.branches
        ]
        names = [name for name, _ in member_names(target)]
        columns = iter(names)
        members = [None if each == NULL else next(columns) for each in target.branches]
        kinds = [each.kind for each in target.branches]
        convert = union_convert(kinds, members, [each.convert for each in forms], self.fast, path)
        problems = union_problems(members, [each.problems for each in forms])
        return Form(convert, problems, write.union_writer([each.write for each in forms]))


def both(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def masked(mask: Any, live: Any) -> Any:
    return mask if live is None else mask & live


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _leaf_writer(target: Any, leaf: Leaf) -> RowWriter:
    match target:
        case Enum():
            return write.enum_writer(target.symbols)
        case Primitive():
            return write.PRIMITIVES[target.kind]
        case _:
            return write.write_raw


def _required(form: Form, path: str) -> Form:
    rejection = Rejection(Reason.ENCODE_NULL, "The value is null, the contract needs one.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        if array.null_count:
            add_fault(faults, array.is_null().to_numpy(zero_copy_only=False), live, rejection)
        return form.convert(array, faults, live)

    return Form(convert, form.problems, form.write)


def _null_convert(path: str) -> Convert:
    rejection = Rejection(Reason.ENCODE_TYPE, "There is a value where the contract has only null.", path)

    def convert(array: Any, faults: list[Fault], live: Any) -> Any:
        if array.null_count != len(array):
            add_fault(faults, array.is_valid().to_numpy(zero_copy_only=False), live, rejection)
        return pa.nulls(len(array))

    return convert


def _null_problems(type: Any, place: str) -> list[str]:
    return []


def _or_null(problems: Problems) -> Problems:
    return lambda type, place: [] if pa.types.is_null(type) else problems(type, place)


def _record_problems(fields: list[tuple[Field, Form]], defaults: set[str]) -> Problems:
    names = {each.name for each, _ in fields}

    def problems(type: Any, place: str) -> list[str]:
        if not pa.types.is_struct(type):
            return [f"{place}: {type} given, a struct needed"]
        found = [f"{_join(place, each.name)}: not in the contract" for each in type if each.name not in names]
        for field, form in fields:
            index = type.get_field_index(field.name)
            if index >= 0:
                found += form.problems(type.field(index).type, _join(place, field.name))
            elif field.name not in defaults:
                found.append(f"{_join(place, field.name)}: missing, and the contract has no default for it")
        return found

    return problems
