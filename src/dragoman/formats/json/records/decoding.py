"""From JSON values to instances of record classes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dragoman.formats.json.records import text
from dragoman.formats.json.records.constraints import checks_of
from dragoman.formats.json.records.misfit import Misfit, Violation
from dragoman.formats.json.records.unions import exact_test_of, refuse_ambiguous, test_of
from dragoman.schema.markers import Constraint, Primitive
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    Construction,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    Field,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
    is_null,
)

Convert = Callable[[Any], Any]
_CONSTANTS = (type(None), bool, int, float, str, bytes)


def decoder_of(record: RecordType) -> Convert:
    """A function from a JSON value to an instance. Raises ``Misfit``."""
    return _Decoders().record(record)


def value_from(type: Type, value: Any) -> Any:
    """One value from JSON, for defaults in schemas. Raises ``Misfit``."""
    return _Decoders().of(type)(value)


class _Decoders:
    def __init__(self) -> None:
        self._records: dict[RecordType, Convert] = {}

    def of(self, type: Type) -> Convert:
        match type:
            case PrimitiveType():
                return _primitive(type)
            case DecimalType(precision, scale):
                return _checked(
                    lambda value: text.decimal_from_text(value, precision, scale), type.constraints
                )
            case DateType() | TimeType() | TimestampType():
                return _checked(_moment(type), type.constraints)
            case UuidType():
                return _exactly(str) if type.python is str else text.uuid_from_text
            case DurationType():
                is_delta = type.python.__name__ == "timedelta"
                return text.timedelta_from_text if is_delta else text.duration_from_text
            case FixedType():
                return _fixed(type.size)
            case EnumType():
                return _symbol(type)
            case ArrayType():
                return self._array(type)
            case MapType():
                return self._map(type)
            case UnionType():
                return self._union(type)
            case RecordType():
                return self.record(type)

    def record(self, record: RecordType) -> Convert:
        """A record that contains itself finds the function that is being made."""
        known = self._records.get(record)
        if known is not None:
            return known
        fields: list[tuple[Field, type | None, Convert, Callable[[], Any] | None]] = []
        build = _builder(record)

        def decode(document: Any) -> Any:
            if type(document) is not dict:
                raise Misfit("This is not an object.")
            values = []
            for field, exact, convert, default in fields:
                if field.name in document:
                    value = document[field.name]
                else:
                    name = next((alias for alias in field.aliases if alias in document), None)
                    if name is None:
                        if default is None:
                            raise Misfit("The field is missing and has no default.", (field.name,))
                        values.append(default())
                        continue
                    value = document[name]
                if type(value) is exact:
                    values.append(value)
                    continue
                try:
                    values.append(convert(value))
                except Misfit as error:
                    raise error.within(field.name) from None
            return build(values)

        self._records[record] = decode
        fields += [(each, _exact(each.type), self.of(each.type), _default(each)) for each in record.fields]
        return decode

    def _array(self, type: ArrayType) -> Convert:
        convert, container = self.of(type.items), type.python

        def decode(values: Any) -> Any:
            if not isinstance(values, list):
                raise Misfit("This is not an array.")
            items = [convert(each) for each in values]
            return items if container is list else container(items)

        return decode

    def _map(self, type: MapType) -> Convert:
        convert = self.of(type.values)

        def decode(values: Any) -> dict[str, Any]:
            if not isinstance(values, dict):
                raise Misfit("This is not an object.")
            return {key: convert(value) for key, value in values.items()}

        return decode

    def _union(self, type: UnionType) -> Convert:
        refuse_ambiguous(type)
        if len(type.branches) == 2 and type.optional:
            return _optional(self.of(next(each for each in type.branches if not is_null(each))))
        records = [
            (exact_test_of(branch), self.record(branch))
            for branch in type.branches
            if isinstance(branch, RecordType)
        ]
        others = [(test_of(branch), self.of(branch)) for branch in type.branches]
        branches = [*(records if len(records) > 1 else ()), *others]

        def decode(value: Any) -> Any:
            violation: Misfit | None = None
            for test, convert in branches:
                if test(value):
                    try:
                        return convert(value)
                    except Misfit as error:
                        violation = violation or (error if isinstance(error, Violation) else None)
            raise violation or Misfit("The value fits none of the alternatives.")

        return decode


def _builder(record: RecordType) -> Callable[[list[Any]], Any]:
    cls = record.cls
    attributes = [each.attribute for each in record.fields]
    arguments = [each.argument for each in record.fields]

    def assign(values: list[Any]) -> Any:
        instance = object.__new__(cls)
        for attribute, value in zip(attributes, values, strict=True):
            setattr(instance, attribute, value)
        return instance

    def call(values: list[Any]) -> Any:
        try:
            if record.construction is Construction.POSITIONAL:
                return cls(*values)
            return cls(**dict(zip(arguments, values, strict=True)))
        except Exception as error:
            raise Violation(f"{cls.__name__} refuses the values: {type(error).__name__}.") from None

    return assign if record.construction is Construction.ASSIGN else call


_EXACT = {Primitive.STRING: str, Primitive.BOOLEAN: bool, Primitive.DOUBLE: float, Primitive.FLOAT: float}


def _exact(type: Type) -> type | None:
    """The Python type of values that need no conversion and no look."""
    return _EXACT.get(type.primitive) if isinstance(type, PrimitiveType) else None


def _optional(convert: Convert) -> Convert:
    def decode(value: Any) -> Any:
        return None if value is None else convert(value)

    return decode


def _default(field: Field) -> Callable[[], Any] | None:
    if field.default is MISSING:
        return None
    if isinstance(field.default, _CONSTANTS):
        return lambda: field.default
    return lambda: copy.deepcopy(field.default)


def _primitive(type: PrimitiveType) -> Convert:
    match type.primitive:
        case Primitive.NULL:
            return _nothing
        case Primitive.BOOLEAN:
            return _exactly(bool)
        case Primitive.INT | Primitive.LONG:
            return _integer(31 if type.primitive is Primitive.INT else 63)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return _float
        case Primitive.BYTES:
            return _checked(text.bytes_from_text, type.constraints)
        case Primitive.STRING:
            return _exactly(str)


def _nothing(value: Any) -> None:
    if value is not None:
        raise Misfit("This is not null.")


def _exactly(cls: type) -> Convert:
    def decode(value: Any) -> Any:
        if type(value) is not cls:
            raise Misfit(f"This is not a {cls.__name__}.")
        return value

    return decode


def _integer(bits: int) -> Convert:
    """``1.0`` is an integer in JSON Schema."""
    least, most = -(2**bits), 2**bits - 1

    def decode(value: Any) -> int:
        if type(value) is not int:
            if type(value) is not float or not value.is_integer():
                raise Misfit("This is not an integer.")
            value = int(value)
        if not least <= value <= most:
            raise Misfit(f"This does not fit {bits + 1} bits.")
        return int(value)

    return decode


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit("This is not a number.")
    try:
        return float(value)
    except OverflowError:
        raise Misfit("The number is out of range.") from None


def _moment(type: DateType | TimeType | TimestampType) -> Convert:
    if type.python is int:
        return _integer(63)
    match type:
        case TimestampType(_, local):
            return lambda value: text.timestamp_from_text(value, local)
        case TimeType():
            return text.time_from_text
        case _:
            return text.date_from_text


def _fixed(size: int) -> Convert:
    def decode(value: Any) -> bytes:
        found = text.bytes_from_text(value)
        if len(found) != size:
            raise Misfit(f"These are not {size} bytes.")
        return found

    return decode


def _symbol(type: EnumType) -> Convert:
    members = {member.name: member for member in type.cls}
    fallback = members.get(type.fallback) if type.fallback else None

    def decode(value: Any) -> Any:
        found = members.get(value, fallback) if isinstance(value, str) else None
        if found is None:
            raise Misfit(f"This is not a member of {type.cls.__name__}.")
        return found

    return decode


def _checked(convert: Convert, constraints: tuple[Constraint, ...]) -> Convert:
    checks = checks_of(constraints)
    if not checks:
        return convert

    def decode(value: Any) -> Any:
        read = convert(value)
        for check in checks:
            check(read)
        return read

    return decode
