"""How a record class and a struct fit together: which field is which, and which branch of a union."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.thrift.conversions import conversion
from dragoman.formats.thrift.model import Field, Struct, StructType
from dragoman.schema import types as neutral
from dragoman.schema.binding import branches, python_type
from dragoman.schema.types import MISSING, RecordType, UnionType


def matched(struct: Struct, record: RecordType) -> dict[str, Field]:
    """The struct's field for each of the record's that has one: by its name, else by a former one."""
    free = {each.name: each for each in struct.fields}
    found = {each.name: free.pop(each.name) for each in record.fields if each.name in free}
    for each in record.fields:
        former = next((alias for alias in each.aliases if alias in free), None)
        if each.name not in found and former is not None:
            found[each.name] = free.pop(former)
    return found


def refuse_homeless(struct: Struct, record: RecordType) -> None:
    """A field that the struct has no place for would be lost."""
    found = matched(struct, record)
    for field in record.fields:
        if field.name not in found:
            raise unfit(record, field.name, f"has no place in {struct.name}")


def members(struct: Struct, union: UnionType) -> list[tuple[Field, neutral.Type]]:
    """Each field of a Thrift union with the branch that it holds. Raises ``IncompatibleSchema``."""
    waiting = branches(union)
    found: list[tuple[Field, neutral.Type]] = []
    for field in struct.fields:
        for type in waiting:
            if _holds(field, type):
                found.append((field, type))
                waiting = [each for each in waiting if each is not type]
                break
    if waiting:
        raise IncompatibleSchema(
            f"The union {struct.name} has no field for {python_type(waiting[0]).__name__}."
        )
    return found


def _holds(field: Field, type: neutral.Type) -> bool:
    if isinstance(type, RecordType):
        return isinstance(field.type, StructType) and field.type.struct.name == type.names.name
    return conversion(type, field.type) is not None


def unfit(owner: RecordType | None, name: str, why: str) -> IncompatibleSchema:
    whose = f" of {owner.names.name}" if owner is not None else ""
    return IncompatibleSchema(
        f"The field {name!r}{whose} {why}.",
        next="Change the class, or use the schema that belongs to it.",
        field=name,
    )


def default_of(field: neutral.Field) -> Callable[[], Any] | None:
    """Makes the class' own default; ``None`` if there is none."""
    if field.default is MISSING:
        return None
    value = field.default
    return lambda: copy.deepcopy(value)
