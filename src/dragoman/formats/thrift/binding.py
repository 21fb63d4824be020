"""How a record class and a struct fit together: which field is which, and which branch of a union."""

from __future__ import annotations

import copy
from collections.abc import Callable
from decimal import Decimal
from types import NoneType
from typing import Any

from dragoman.core.errors import ConstraintViolated, IncompatibleSchema, MessageError
from dragoman.formats.thrift.conversions import conversion
from dragoman.formats.thrift.model import Field, Struct, StructType
from dragoman.schema import types as neutral
from dragoman.schema.markers import Primitive
from dragoman.schema.types import MISSING, RecordType, UnionType, is_null


def find(struct: Struct, field: neutral.Field) -> Field | None:
    """What the struct calls this field, now or under a former name."""
    by_name = {each.name: each for each in struct.fields}
    return next((by_name[name] for name in (field.name, *field.aliases) if name in by_name), None)


def branches(type: UnionType) -> list[neutral.Type]:
    return [branch for branch in type.branches if not is_null(branch)]


def unwrap(type: neutral.Type) -> tuple[neutral.Type, bool]:
    """The type without ``None``, and whether ``None`` was possible."""
    if isinstance(type, UnionType):
        kept = branches(type)
        return (kept[0] if len(kept) == 1 else UnionType(tuple(kept))), type.optional
    return type, False


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


_PYTHON: dict[Primitive, type] = {
    Primitive.NULL: NoneType,
    Primitive.BOOLEAN: bool,
    Primitive.INT: int,
    Primitive.LONG: int,
    Primitive.FLOAT: float,
    Primitive.DOUBLE: float,
    Primitive.BYTES: bytes,
    Primitive.STRING: str,
}


def python_type(type: neutral.Type) -> Any:
    """The class of the values of a single type; ``object`` where there is no single one."""
    match type:
        case RecordType() | neutral.EnumType():
            return type.cls
        case neutral.PrimitiveType():
            return _PYTHON[type.primitive]
        case neutral.DecimalType():
            return Decimal
        case neutral.FixedType():
            return bytes
        case neutral.ArrayType() | neutral.MapType() | UnionType():
            return object
    return type.python


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


def constructor(record: RecordType) -> Callable[..., Any]:
    """The class, with what its own validation raises turned into ours."""
    cls = record.cls
    refusals: tuple[type[Exception], ...] = (ValueError, TypeError, *record.refusals)

    def construct(*arguments: Any, **named: Any) -> Any:
        try:
            return cls(*arguments, **named)
        except MessageError:
            raise
        except refusals as error:
            raise ConstraintViolated(f"{record.names.name} refuses its values: {error}") from error

    return construct
