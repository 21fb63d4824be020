"""From instances of record classes to JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from dragoman.formats.json.records import text
from dragoman.formats.json.records.constraints import checks_of
from dragoman.formats.json.records.misfit import Misfit
from dragoman.formats.json.records.unions import narrowest_first, python, refuse_ambiguous
from dragoman.schema.markers import Constraint, Primitive
from dragoman.schema.types import (
    ArrayType,
    DateType,
    DecimalType,
    DurationType,
    EnumType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    TimestampType,
    TimeType,
    Type,
    UnionType,
    UuidType,
)

Convert = Callable[[Any], Any]


def encoder_of(record: RecordType, left_out: Mapping[RecordType, frozenset[str]]) -> Convert:
    """A function from an instance to a dict. Raises ``Misfit``.

    ``left_out`` names the fields of a record that are not written when they are ``None``.
    """
    return _Encoders(left_out).record(record)


def value_of(type: Type, value: Any) -> Any:
    """One value as JSON, for defaults in schemas."""
    convert = _Encoders({}).of(type)
    return value if convert is None else convert(value)


class _Encoders:
    """``None`` stands for values that are JSON already; the validator looks at those."""

    def __init__(self, left_out: Mapping[RecordType, frozenset[str]]) -> None:
        self._left_out = left_out
        self._records: dict[RecordType, Convert] = {}

    def of(self, type: Type) -> Convert | None:
        match type:
            case PrimitiveType():
                return _primitive(type)
            case DecimalType(precision, scale):
                return _checked(lambda value: text.decimal_to_text(value, precision, scale), type.constraints)
            case DateType() | TimeType() | TimestampType():
                return _checked(_moment(type), type.constraints)
            case UuidType():
                return text.uuid_to_text if type.python is not str else None
            case DurationType():
                return text.duration_to_text
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
        fields: list[tuple[str, Convert, Convert | None]] = []
        cls = record.cls
        left_out = self._left_out.get(record, frozenset())

        def encode(instance: Any) -> dict[str, Any]:
            if not isinstance(instance, cls):
                raise Misfit(f"This is not a {cls.__name__}.")
            document = {}
            for name, get, convert in fields:
                value = get(instance)
                if value is None and name in left_out:
                    continue
                if convert is not None:
                    try:
                        value = convert(value)
                    except Misfit as error:
                        raise error.within(name) from None
                document[name] = value
            return document

        self._records[record] = encode
        fields += [(each.name, attrgetter(each.attribute), self.of(each.type)) for each in record.fields]
        return encode

    def _array(self, type: ArrayType) -> Convert:
        convert = self.of(type.items)

        def encode(values: Any) -> list[Any]:
            if not isinstance(values, list | tuple | set | frozenset):
                raise Misfit("This is not a collection.")
            items = sorted(values, key=repr) if isinstance(values, set | frozenset) else values
            return list(items) if convert is None else [convert(each) for each in items]

        return encode

    def _map(self, type: MapType) -> Convert | None:
        convert = self.of(type.values)
        if convert is None:
            return None

        def encode(values: Any) -> dict[str, Any]:
            if not isinstance(values, dict):
                raise Misfit("This is not a dict.")
            return {key: convert(value) for key, value in values.items()}

        return encode

    def _union(self, type: UnionType) -> Convert | None:
        refuse_ambiguous(type)
        branches = [(python(branch), self.of(branch)) for branch in narrowest_first(type.branches)]
        if all(convert is None for _, convert in branches):
            return None

        def encode(value: Any) -> Any:
            for classes, convert in branches:
                if isinstance(value, classes):
                    return value if convert is None else convert(value)
            raise Misfit("The value fits none of the alternatives.")

        return encode


def _primitive(type: PrimitiveType) -> Convert | None:
    if type.primitive is Primitive.BYTES:
        return _checked(text.bytes_to_text, type.constraints)
    return None


def _moment(type: DateType | TimeType | TimestampType) -> Convert | None:
    if type.python is int:
        return None
    match type:
        case TimestampType(unit, local):
            return lambda value: text.timestamp_to_text(value, unit, local)
        case TimeType(unit):
            return lambda value: text.time_to_text(value, unit)
        case _:
            return text.date_to_text


def _fixed(size: int) -> Convert:
    def encode(value: Any) -> str:
        if not isinstance(value, bytes) or len(value) != size:
            raise Misfit(f"These are not {size} bytes.")
        return text.bytes_to_text(value)

    return encode


def _symbol(type: EnumType) -> Convert:
    cls = type.cls

    def encode(value: Any) -> str:
        if not isinstance(value, cls):
            raise Misfit(f"This is not a {cls.__name__}.")
        return value.name

    return encode


def _checked(convert: Convert | None, constraints: tuple[Constraint, ...]) -> Convert | None:
    checks = checks_of(constraints)
    if not checks:
        return convert

    def encode(value: Any) -> Any:
        written = value if convert is None else convert(value)
        for check in checks:
            check(value)
        return written

    return encode
