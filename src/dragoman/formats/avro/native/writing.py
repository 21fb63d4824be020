"""Planning the way from a value to bytes: the same choices as ``encoder.py``, made of native nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.core.errors import IncompatibleSchema
from dragoman.formats.avro import runtime
from dragoman.formats.avro.binding import bound, constraints_of, parts_of, python_of, refuse_homeless
from dragoman.formats.avro.choosing import Choice, choices_of, choose, tests_for
from dragoman.formats.avro.constraints import stated
from dragoman.formats.avro.native import engine
from dragoman.formats.avro.native.engine import Writer
from dragoman.formats.avro.native.planning import PER_SECOND, Unplanned, limits_of, place_in
from dragoman.formats.avro.nodes import MISSING, Array, Enum, Fixed, Map, Node, Primitive, Record, Union
from dragoman.formats.avro.source import Source
from dragoman.formats.avro.values import value_of_default
from dragoman.schema import types
from dragoman.schema.types import Type


def plan_writer(root: Node, type: Type | None) -> Writer | None:
    """``None`` if some part of it is left to Python."""
    try:
        return _Planner().plan(root, bound(type, root, ""))
    except (Unplanned, IncompatibleSchema, RecursionError):
        return None


class _Planner:
    def __init__(self) -> None:
        self.records: dict[tuple[int, int], Writer] = {}

    def plan(self, node: Node, type: Type | None) -> Writer:
        match node:
            case Record():
                return self._record(node, type)
            case Union():
                return self._union(node, type)
            case Array():
                part = type.items if isinstance(type, types.ArrayType) else None
                return _limited(engine.WriteArray(self._bound(node.items, part)), node, type)
            case Map():
                part = type.values if isinstance(type, types.MapType) else None
                return _limited(engine.WriteMap(self._bound(node.values, part)), node, type)
            case Enum():
                return _enum(node, type)
            case Fixed():
                return _fixed(node, type)
            case Primitive():
                return _primitive(node, type)

    def _bound(self, node: Node, type: Type | None) -> Writer:
        return self.plan(node, bound(type, node, ""))

    def _record(self, node: Record, type: Type | None) -> Writer:
        key = (id(node), id(type))
        if key not in self.records:
            if isinstance(type, types.RecordType):
                made = self.records[key] = engine.WriteObject(type.cls)
                made.complete(self._attributes(node, type))
            else:
                plain = self.records[key] = engine.WriteDict()
                plain.complete(self._entries(node))
        return self.records[key]

    def _attributes(self, node: Record, type: types.RecordType) -> list[engine.Part]:
        parts = parts_of(type, node)
        refuse_homeless(type, node, parts)
        made: list[engine.Part] = []
        for field in node.fields:
            part = parts.get(field.name)
            if part is not None:
                place = place_in(type.cls, part.attribute)
                made.append(engine.Part(self._bound(field.type, part.type), place))
            else:
                default = value_of_default(field.type, field.default, None)
                made.append(engine.Part(self.plan(field.type, None), None, default))
        return made

    def _entries(self, node: Record) -> list[engine.Part]:
        made: list[engine.Part] = []
        for field in node.fields:
            default = (
                (value_of_default(field.type, field.default, None),) if field.default is not MISSING else ()
            )
            made.append(engine.Part(self.plan(field.type, None), field.name, *default))
        return made

    def _union(self, node: Union, type: Type | None) -> Writer:
        choices = choices_of(node, type, "")
        real = [choice for choice in choices if choice[1].kind != "null"]
        null = next((choice[0] for choice in choices if choice[1].kind == "null"), -1)
        if not real:
            # A bare writer takes nothing.
            return engine.WriteOptional(null, 0, Writer())
        if len(real) == 1:
            index, branch, part = real[0]
            return engine.WriteOptional(null, index, self.plan(branch, part))
        pick = partial(choose, node) if type is None else _picker(node, real, null)
        return engine.WriteUnion(pick, {index: self.plan(branch, part) for index, branch, part in choices})


def _picker(node: Union, real: list[Choice], null: int) -> Callable[[Any], int]:
    """The tests that the Python encoder has between its lines, as a function."""
    source = Source("choice")
    with source.block("def pick(value):"):
        if null >= 0:
            source.add(f"if value is None: return {null}")
        for test, choice in tests_for(source, node, real, "value"):
            source.add(f"if {test}: return {choice[0]}")
        source.add("return -1")
    return source.compile("pick")


def _limited(writer: Writer, node: Node, type: Type | None) -> Writer:
    constraints = constraints_of(type) if type is not None else stated(node)
    if type is None and constraints and isinstance(node, Primitive | Fixed) and node.logical is not None:
        # Which of them count depends on whether the value is bare.
        raise Unplanned
    limits = limits_of(constraints)
    return writer if limits is None else engine.WriteLimited(writer, limits)


def _enum(node: Enum, type: Type | None) -> Writer:
    indexes = {symbol: index for index, symbol in enumerate(node.symbols)}
    if not isinstance(type, types.EnumType):
        return engine.WriteSymbol(indexes)
    members = [member for member in type.cls if member.name in indexes]
    return engine.WriteMember(members, [indexes[member.name] for member in members])


def _fixed(node: Fixed, type: Type | None) -> Writer:
    logical = node.logical
    bare = engine.WriteFixed(node.size)
    if logical is None or python_of(type) is bytes:
        return bare
    match logical.name:
        case "decimal":
            digits = {"precision": logical.precision, "scale": logical.scale}
            convert: Callable[[Any], Any] = partial(runtime.decimal_fixed, **digits, size=node.size)
        case "uuid":
            convert = runtime.uuid_bytes
        case _:
            convert = runtime.duration_bytes
    made = engine.WriteVia(bare, convert if type is not None else partial(_unless, bytes, convert))
    return _limited(made, node, type) if logical.name == "decimal" else made


def _unless(bare: type, convert: Callable[[Any], Any], value: Any) -> Any:
    """Plain values may be what they become."""
    return value if value.__class__ is bare else convert(value)


def _primitive(node: Primitive, type: Type | None) -> Writer:
    match node.kind:
        case "null":
            return engine.WriteNull()
        case "boolean":
            return engine.WriteBoolean()
        case "int" | "long":
            return _limited(_whole(node, type), node, type)
        case "float":
            return _limited(engine.WriteFloat(), node, type)
        case "double":
            return _limited(engine.WriteDouble(), node, type)
        case "string":
            return _string(node, type)
        case _:
            return _limited(_bytes(node, type), node, type)


def _whole(node: Primitive, type: Type | None) -> Writer:
    small = node.kind == "int"
    if node.logical is None or python_of(type) is int:
        return engine.WriteWhole(small)
    name, plain = node.logical.name, type is None
    unit = name.rpartition("-")[2]
    if name == "date":
        return engine.WriteDate(small, plain)
    if name.startswith("time-"):
        convert: Callable[[Any], Any] = runtime.micros_of_day if unit == "micros" else _millis_of_day
        return engine.WriteVia(engine.WriteWhole(small), partial(_unless, int, convert) if plain else convert)
    return engine.WriteMoment(small, plain, PER_SECOND[unit], name.startswith("local"))


def _millis_of_day(value: Any) -> int:
    return runtime.micros_of_day(value) // 1000


def _string(node: Primitive, type: Type | None) -> Writer:
    if node.logical is not None and type is None:
        return engine.WriteVia(engine.WriteBytes(), _text_or_uuid)
    if isinstance(type, types.UuidType):
        convert = runtime.text_of_uuid if type.python is str else runtime.uuid_text
        return engine.WriteVia(engine.WriteBytes(), convert)
    return _limited(engine.WriteText(), node, type)


def _text_or_uuid(value: Any) -> bytes:
    return value.encode() if value.__class__ is str else runtime.uuid_text(value)


def _bytes(node: Primitive, type: Type | None) -> Writer:
    logical = node.logical
    if logical is None or python_of(type) is bytes:
        return engine.WriteBytes()
    digits = {"precision": logical.precision, "scale": logical.scale}
    convert = partial(runtime.decimal_bytes, **digits)
    return engine.WriteVia(
        engine.WriteBytes(), convert if type is not None else partial(_unless, bytes, convert)
    )
