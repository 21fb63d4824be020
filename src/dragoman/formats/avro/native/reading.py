"""Planning the way from bytes to a value: the same resolution as ``decoder.py``, made of native nodes."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro import runtime
from dragoman.formats.avro.binding import bound, constraints_of, parts_of, python_of
from dragoman.formats.avro.compatibility import Checker, matched_fields
from dragoman.formats.avro.native import engine
from dragoman.formats.avro.native.engine import Reader
from dragoman.formats.avro.native.planning import PER_SECOND, Unplanned, limits_of, place_in
from dragoman.formats.avro.native.skipping import SkipPlanner
from dragoman.formats.avro.nodes import (
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)
from dragoman.formats.avro.usage import Sizes
from dragoman.formats.avro.values import class_default, is_shareable, value_of_default
from dragoman.schema import types
from dragoman.schema.types import Construction, Type


def plan_reader(writer: Node, reader: Node, type: Type | None) -> Reader | None:
    """``None`` if some part of it is left to Python."""
    try:
        return _Planner().plan(writer, reader, type)
    except (Unplanned, RecursionError):
        return None


class _Planner:
    def __init__(self) -> None:
        self.checker = Checker()
        self.sizes = Sizes()
        self.skips = SkipPlanner(self.sizes)
        self.records: dict[tuple[int, int, int], Reader] = {}

    def plan(self, writer: Node, reader: Node, type: Type | None) -> Reader:
        if isinstance(writer, Union):
            return engine.ReadUnion([self._branch(branch, reader, type) for branch in writer.branches])
        if isinstance(reader, Union):
            reader = self._chosen(reader, writer)
        type = bound(type, reader, "")
        match writer, reader:
            case Record(), Record():
                return self._record(writer, reader, type)
            case Array(), Array():
                return self._array(writer, reader, type)
            case Map(), Map():
                part = type.values if isinstance(type, types.MapType) else None
                item = self.plan(writer.values, reader.values, part)
                return _limited(engine.ReadMap(item, 1 + self.sizes.least(writer.values)), type)
            case Enum(), Enum():
                return _enum(writer, reader, type)
            case ((Primitive() | Fixed()), (Primitive() | Fixed())):
                return _limited(_scalar(writer, reader, type), type)
            case _:
                raise Unplanned

    def _chosen(self, reader: Union, writer: Node) -> Node:
        branch = self.checker.branch_for(reader, writer)
        if branch is None:
            raise Unplanned
        return branch

    def _branch(self, branch: Node, reader: Node, type: Type | None) -> Reader | None:
        """A branch of the writer's union, ``None`` if the class has no place for it."""
        chosen = self._chosen(reader, branch) if isinstance(reader, Union) else reader
        try:
            part = bound(type, chosen, "")
        except IncompatibleSchema:
            return None
        return self.plan(branch, chosen, part)

    def _array(self, writer: Array, reader: Array, type: Type | None) -> Reader:
        least = self.sizes.least(writer.items)
        if not least:
            # Items of no bytes are counted over the whole payload.
            raise Unplanned
        part = type.items if isinstance(type, types.ArrayType) else None
        items = _limited(engine.ReadArray(self.plan(writer.items, reader.items, part), least), type)
        if isinstance(type, types.ArrayType) and type.python is not list:
            return engine.ReadVia(items, type.python)
        return items

    def _record(self, writer: Record, reader: Record, type: Type | None) -> Reader:
        key = (id(writer), id(reader), id(type))
        if key not in self.records:
            if not isinstance(type, types.RecordType):
                plain = self.records[key] = engine.ReadDict()
                self._complete_dict(plain, _Fields(writer, reader, None))
            elif type.construction is Construction.ASSIGN:
                made = self.records[key] = _object(type.cls)
                self._complete_object(made, _Fields(writer, reader, type))
            else:
                values = engine.ReadDict()
                by_position = type.construction is Construction.POSITIONAL
                self.records[key] = engine.ReadCall(type.cls, by_position, values)
                self._complete_dict(values, _Fields(writer, reader, type))
        return self.records[key]

    def _complete_dict(self, made: engine.ReadDict, fields: _Fields) -> None:
        shared, makers = _parted(fields.defaults())
        template = dict.fromkeys(fields.keys()) | dict(shared)
        made.complete(self._steps(fields, fields.key), makers, template)

    def _complete_object(self, made: engine.ReadObject, fields: _Fields) -> None:
        shared, makers = _parted(fields.defaults())
        made.complete(self._steps(fields, fields.slot), makers, shared)

    def _steps(self, fields: _Fields, place: Callable[[Field], Any]) -> list[engine.Step]:
        steps: list[engine.Step] = []
        for source in fields.writer.fields:
            field = fields.taken.get(source.name)
            if field is None:
                steps.append(engine.Step(self.skips.plan(source.type)))
            else:
                part = fields.parts[field.name].type if fields.type is not None else None
                steps.append(engine.Step(self.plan(source.type, field.type, part), place(field)))
        return steps


class _Fields:
    """A record's fields: which of the writer's are taken for which of the reader's, and what they become."""

    def __init__(self, writer: Record, reader: Record, type: types.RecordType | None) -> None:
        self.writer = writer
        self.reader = reader
        self.type = type
        self.parts = parts_of(type, reader) if type is not None else {}
        self.matched = matched_fields(reader, writer)
        self.taken = {
            self.matched[field.name].name: field
            for field in reader.fields
            if field.name in self.matched and (type is None or field.name in self.parts)
        }

    @property
    def _assigned(self) -> bool:
        return self.type is not None and self.type.construction is Construction.ASSIGN

    def keys(self) -> list[str]:
        if self.type is None:
            return [field.name for field in self.reader.fields]
        return [part.argument for part in self.type.fields]

    def key(self, field: Field) -> str:
        """In the dict, in the call, or the attribute."""
        if self.type is None:
            return field.name
        part = self.parts[field.name]
        return part.attribute if self._assigned else part.argument

    def slot(self, field: Field) -> Any:
        return place_in(self.type.cls, self.key(field)) if self.type is not None else self.key(field)

    def defaults(self) -> list[tuple[str, Any]]:
        """Of the reader's schema, where the writer has no such field, and of the class."""
        found: list[tuple[str, Any]] = []
        for field in self.reader.fields:
            if field.name not in self.matched and (self.type is None or field.name in self.parts):
                part = self.parts[field.name].type if field.name in self.parts else None
                found.append((self.key(field), value_of_default(field.type, field.default, part)))
        if self.type is not None:
            placed = {id(part) for part in self.parts.values()}
            for each in self.type.fields:
                if id(each) not in placed:
                    name = each.attribute if self._assigned else each.argument
                    found.append((name, class_default(each, self.type)))
        return found


def _object(cls: type) -> engine.ReadObject:
    try:
        return engine.ReadObject(cls)
    except TypeError:
        # An abstract class, say: Python will tell of it when a message comes.
        raise Unplanned from None


def _parted(
    defaults: list[tuple[str, Any]],
) -> tuple[list[tuple[str, Any]], list[tuple[str, Callable[[], Any]]]]:
    """The defaults that all messages share, and functions that make the others anew."""
    shared = [(name, value) for name, value in defaults if is_shareable(value)]
    makers: list[tuple[str, Callable[[], Any]]] = [
        (name, partial(copy.deepcopy, value) if value else type(value))
        for name, value in defaults
        if not is_shareable(value)
    ]
    return shared, makers


def _limited(reader: Reader, type: Type | None) -> Reader:
    limits = limits_of(constraints_of(type))
    return reader if limits is None else engine.ReadLimited(reader, limits)


def _enum(writer: Enum, reader: Enum, type: Type | None) -> Reader:
    values: list[Any] = []
    for symbol in writer.symbols:
        found: Any = symbol if symbol in reader.symbols else reader.default
        if isinstance(type, types.EnumType):
            member = type.cls.__members__.get(found or "")
            if member is None and type.fallback is not None:
                member = type.cls[type.fallback]
            found = member
        values.append(found)
    return engine.ReadEnum(values)


def _scalar(writer: Primitive | Fixed, reader: Primitive | Fixed, type: Type | None) -> Reader:
    wanted = python_of(type)
    logical = reader.logical
    raw = wanted in (int, str, bytes) or isinstance(type, types.PrimitiveType)
    if writer.kind in ("int", "long") and logical is not None and writer.logical is not None:
        return _moment(writer, writer.logical, logical, None if raw else wanted, raw)
    if logical is None or (raw and not isinstance(type, types.UuidType)):
        return _promoted(writer, reader.kind)
    return _converted(writer, logical, wanted)


def _bare(writer: Primitive | Fixed) -> Reader:
    match writer.kind:
        case "null":
            return engine.ReadNull()
        case "boolean":
            return engine.ReadBoolean()
        case "int" | "long":
            return engine.ReadWhole(writer.kind == "int")
        case "float":
            return engine.ReadFloat()
        case "double":
            return engine.ReadDouble()
        case "fixed" if isinstance(writer, Fixed):
            return engine.ReadFixed(writer.size)
        case _:
            return engine.ReadBytes()


def _promoted(writer: Primitive | Fixed, reader: str) -> Reader:
    if writer.kind in ("string", "bytes") and reader == "string":
        return engine.ReadText()
    if writer.kind in ("int", "long") and reader in ("float", "double"):
        return engine.ReadWhole(writer.kind == "int", True)
    return _bare(writer)


def _converted(writer: Primitive | Fixed, logical: Logical, wanted: Any) -> Reader:
    match logical.name:
        case "decimal":
            scaled = writer.logical or logical
            convert = partial(runtime.decimal_of, precision=scaled.precision, scale=scaled.scale)
            return engine.ReadVia(_bare(writer), convert)
        case "uuid" if writer.kind == "fixed":
            made = engine.ReadVia(_bare(writer), _uuid_of)
            return engine.ReadVia(made, str) if wanted is str else made
        case "uuid":
            return engine.ReadVia(engine.ReadText(), runtime.uuid_str if wanted is str else UUID)
        case "duration":
            made = engine.ReadVia(_bare(writer), runtime.duration_of)
            return engine.ReadVia(made, _timedelta) if wanted is dt.timedelta else made
    return _moment(writer, logical, logical, wanted, False)


def _uuid_of(data: bytes) -> UUID:
    return UUID(bytes=data)


def _timedelta(value: Any) -> Any:
    return value.timedelta()


def _moment(node: Primitive | Fixed, writer: Logical, reader: Logical, wanted: Any, raw: bool) -> Reader:
    """A date or time. Where the writer's unit is another, the value is brought to the reader's."""
    small = node.kind == "int"
    unit, target = writer.name.rpartition("-")[2], reader.name.rpartition("-")[2]
    if raw or (reader.name.endswith("nanos") and wanted is None):
        if unit == target or unit not in PER_SECOND or target not in PER_SECOND:
            return engine.ReadWhole(small)
        brought = partial(_brought, PER_SECOND[unit], PER_SECOND[target])
        return engine.ReadVia(engine.ReadWhole(small), brought)
    if reader.name == "date":
        return engine.ReadDate(small)
    if unit not in PER_SECOND:
        raise Unplanned
    if reader.name.startswith("time-"):
        return engine.ReadVia(engine.ReadWhole(small), partial(_time_of, PER_SECOND[unit]))
    return engine.ReadMoment(small, PER_SECOND[unit], reader.name.startswith("local"))


def _brought(unit: int, target: int, value: int) -> int:
    return value * (target // unit) if target > unit else value // (unit // target)


def _time_of(unit: int, value: int) -> dt.time:
    return runtime.time_of(_brought(unit, PER_SECOND["micros"], value))
