"""Compiled ways between messages and instances of a record class, without a dict in between."""

from __future__ import annotations

import copy
import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor

from dragoman.core.errors import DecodeError, EncodeError, IncompatibleSchema
from dragoman.formats.protobuf.conversions import conversion
from dragoman.formats.protobuf.shape import attribute, is_map, map_parts
from dragoman.schema.binding import Convert, branches, constructor, python_type, unwrap
from dragoman.schema.compiling import Compilation
from dragoman.schema.constraining import checker
from dragoman.schema.types import (
    MISSING,
    ArrayType,
    Construction,
    Field,
    MapType,
    RecordType,
    Type,
    UnionType,
)


def compile_record_reader(message: Descriptor, record: RecordType) -> Convert:
    """From a message to an instance. Raises ``IncompatibleSchema`` where a field does not fit."""
    reader = _Reader()
    return reader.code.compile(reader.function(message, record))


def compile_record_writer(message: Descriptor, record: RecordType) -> Convert:
    """From an instance to a message."""
    writer = _Writer()
    prepare = writer.code.compile(writer.function(message, record))
    build = message_factory.GetMessageClass(message)
    return lambda value: build(**prepare(value))


class _Compiler(ABC):
    """What reading and writing share: a function per pair of message and class."""

    def __init__(self) -> None:
        self.code = Compilation()
        self.names: dict[tuple[str, int], str] = {}

    def function(self, message: Descriptor, record: RecordType) -> str:
        key = (message.full_name, id(record))
        if key not in self.names:
            name = self.names[key] = f"convert{len(self.names)}"
            self.code.add(self.source(name, message, record))
        return self.names[key]

    @abstractmethod
    def source(self, name: str, message: Descriptor, record: RecordType) -> str:
        """The function of this name."""

    def checked(self, value: str, type: Type, field: str) -> str:
        constraints = getattr(type, "constraints", ())
        if not constraints:
            return value
        return f"{self.code.bind(checker(field, constraints), 'check')}({value})"


class _Reader(_Compiler):
    def source(self, name: str, message: Descriptor, record: RecordType) -> str:
        has = self.code.bind(message_factory.GetMessageClass(message).HasField, "has")
        found = matched(message, record)
        values = [self.field(message, field, record, has, found.get(field.name)) for field in record.fields]
        made = self.code.bind(record.cls, "class")
        if record.construction is Construction.ASSIGN:
            new = self.code.bind(record.cls.__new__, "new")
            lines = [f"o = {new}({made})"]
            lines += (
                f"o.{field.attribute} = {value}" for field, value in zip(record.fields, values, strict=True)
            )
            return "\n    ".join([f"def {name}(m):", *lines, "return o"])
        if record.construction is Construction.POSITIONAL:
            arguments = ", ".join(values)
        else:
            pairs = zip(record.fields, values, strict=True)
            arguments = "**{" + ", ".join(f"{field.argument!r}: {value}" for field, value in pairs) + "}"
        build = self.code.bind(constructor(record), "make")
        return f"def {name}(m):\n    return {build}({arguments})"

    def field(
        self,
        message: Descriptor,
        field: Field,
        record: RecordType,
        has: str,
        found: FieldDescriptor | OneofDescriptor | None,
    ) -> str:
        if found is None:
            if field.default is MISSING:
                raise _unfit(record, field, f"has no counterpart in {message.full_name}, and no default")
            return self.default(field)
        if isinstance(found, OneofDescriptor):
            return self.oneof(found, field, record)
        type, optional = unwrap(field.type)
        value = self.value(found, type, attribute("m", found.name), field, record)
        if optional and found.has_presence:
            return f"({value} if {has}(m, {found.name!r}) else None)"
        if found.has_presence and not found.has_default_value and field.default is not MISSING:
            return f"({value} if {has}(m, {found.name!r}) else {self.default(field)})"
        if found.message_type is not None and not found.is_repeated:
            missing = self.code.bind(_missing(found.full_name), "missing")
            return f"({value} if {has}(m, {found.name!r}) else {missing}())"
        return value

    def default(self, field: Field) -> str:
        value = field.default
        if isinstance(value, list | dict | set) or not _plain(value):
            return f"{self.code.bind(copy.deepcopy, 'copy')}({self.code.bind(value, 'default')})"
        return self.code.bind(value, "default") if value is not None else "None"

    def value(self, found: FieldDescriptor, type: Type, value: str, field: Field, record: RecordType) -> str:
        if isinstance(type, MapType) and is_map(found):
            each = self.single(map_parts(found)[1], type.values, "x", field, record)
            made = f"dict({value})" if each == "x" else f"{{k: {each} for k, x in {value}.items()}}"
            return self.checked(made, type, field.name)
        if isinstance(type, ArrayType) and found.is_repeated and not is_map(found):
            each = self.single(found, type.items, "x", field, record)
            items = value if each == "x" else f"({each} for x in {value})"
            return self.checked(f"{type.python.__name__}({items})", type, field.name)
        if found.is_repeated:
            raise _unfit(record, field, f"cannot be read from the repeated field {found.full_name}")
        return self.single(found, type, value, field, record)

    def single(self, found: FieldDescriptor, type: Type, value: str, field: Field, record: RecordType) -> str:
        if isinstance(type, RecordType) and found.message_type is not None:
            return f"{self.function(found.message_type, type)}({value})"
        how = conversion(type, found)
        if how is None:
            raise _unfit(record, field, f"cannot be read from {found.full_name}")
        made = f"{self.code.bind(how.read, 'read')}({value})" if how.read else value
        return self.checked(made, type, field.name)

    def oneof(self, oneof: OneofDescriptor, field: Field, record: RecordType) -> str:
        """A union: each member of the oneof is read as the branch that fits it."""
        readers: dict[str, str] = {}
        for member, type in members(oneof, field, record):
            name = f"member{len(self.names)}_{len(readers)}"
            value = self.single(member, type, attribute("m", member.name), field, record)
            self.code.add(f"def {name}(m):\n    return {value}")
            readers[member.name] = name
        table = ", ".join(f"{member!r}: {name}" for member, name in readers.items())
        optional = unwrap(field.type)[1]
        absent = "None" if optional else f"{self.code.bind(_missing(oneof.full_name), 'missing')}()"
        which = f"m.WhichOneof({oneof.name!r})"
        return f"(({{{table}}})[w](m) if (w := {which}) else {absent})"


class _Writer(_Compiler):
    def source(self, name: str, message: Descriptor, record: RecordType) -> str:
        entries = []
        fits = matched(message, record)
        for field in record.fields:
            found = fits.get(field.name)
            if found is None:
                raise _unfit(record, field, f"has no place in {message.full_name}")
            if isinstance(found, OneofDescriptor):
                entries.append(f"**{self.oneof(found, field, record)}(v.{field.attribute})")
            else:
                entries.append(f"{found.name!r}: {self.field(found, field, record)}")
        return f"def {name}(v):\n    return {{{', '.join(entries)}}}"

    def field(self, found: FieldDescriptor, field: Field, record: RecordType) -> str:
        type, optional = unwrap(field.type)
        made = self.value(found, type, "y", field, record)
        # Protobuf would take None for a field that is not set.
        absent = "None" if optional else f"{self.code.bind(_unset(field.name), 'unset')}()"
        return f"({made} if (y := v.{field.attribute}) is not None else {absent})"

    def value(self, found: FieldDescriptor, type: Type, value: str, field: Field, record: RecordType) -> str:
        value = self.checked(value, type, field.name) if isinstance(type, ArrayType | MapType) else value
        if isinstance(type, MapType) and is_map(found):
            each = self.single(map_parts(found)[1], type.values, "x", field, record)
            return value if each == "x" else f"{{k: {each} for k, x in {value}.items()}}"
        if isinstance(type, ArrayType) and found.is_repeated and not is_map(found):
            each = self.single(found, type.items, "x", field, record)
            items = f"{self.code.bind(listed, 'listed')}({value})"
            return items if each == "x" else f"[{each} for x in {items}]"
        if found.is_repeated:
            raise _unfit(record, field, f"cannot be written to the repeated field {found.full_name}")
        return self.single(found, type, value, field, record)

    def single(self, found: FieldDescriptor, type: Type, value: str, field: Field, record: RecordType) -> str:
        if isinstance(type, RecordType) and found.message_type is not None:
            return f"{self.function(found.message_type, type)}({value})"
        how = conversion(type, found)
        if how is None:
            raise _unfit(record, field, f"cannot be written to {found.full_name}")
        value = self.checked(value, type, field.name)
        return f"{self.code.bind(how.write, 'write')}({value})" if how.write else value

    def oneof(self, oneof: OneofDescriptor, field: Field, record: RecordType) -> str:
        lines = []
        for member, type in members(oneof, field, record):
            value = self.single(member, type, "x", field, record)
            cls = self.code.bind(python_type(type), "type")
            lines.append(f"    if type(x) is {cls}: return {{{member.name!r}: {value}}}")
        name = f"choose{len(self.names)}_{len(self.code.scope)}"
        refuse = self.code.bind(_no_branch(field.name), "refuse")
        self.code.add(
            "\n".join([f"def {name}(x):", "    if x is None: return {}", *lines, f"    {refuse}(x)"])
        )
        return name


def matched(message: Descriptor, record: RecordType) -> dict[str, FieldDescriptor | OneofDescriptor]:
    """What the message has for each field of the record: by its name, else by a former one."""
    free: dict[str, FieldDescriptor] = dict(message.fields_by_name)
    found: dict[str, FieldDescriptor | OneofDescriptor] = {}
    for field in record.fields:
        if field.name in free:
            found[field.name] = free.pop(field.name)
    for field in record.fields:
        former = next((alias for alias in field.aliases if alias in free), None)
        union = isinstance(field.type, UnionType) and len(branches(field.type)) > 1
        if field.name in found:
            continue
        if former is not None:
            found[field.name] = free.pop(former)
        elif union and field.name in message.oneofs_by_name:
            found[field.name] = message.oneofs_by_name[field.name]
    return found


def members(oneof: OneofDescriptor, field: Field, record: RecordType) -> list[tuple[FieldDescriptor, Type]]:
    """Each member of the oneof with the branch of the union that it holds."""
    waiting = branches(field.type) if isinstance(field.type, UnionType) else [field.type]
    found = []
    for member in oneof.fields:
        for type in waiting:
            inner = member.message_type
            record_fits = isinstance(type, RecordType) and inner is not None and inner.name == type.names.name
            if record_fits or (not isinstance(type, RecordType) and conversion(type, member) is not None):
                found.append((member, type))
                waiting = [each for each in waiting if each is not type]
                break
    if waiting:
        raise _unfit(record, field, f"has a branch that the oneof {oneof.full_name} does not have")
    return found


def _missing(name: str) -> Callable[[], Any]:
    def missing() -> Any:
        raise DecodeError(
            f"The payload has no {name}.", next="Make the field optional, or give it a default."
        )

    return missing


def _unset(name: str) -> Callable[[], Any]:
    def unset() -> Any:
        raise EncodeError(f"The field {name!r} is None.", next="Make it optional, or set it.", field=name)

    return unset


def listed(value: Any) -> Any:
    """Protobuf itself would also take the letters of a string and the keys of a dict."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise TypeError(f"{type(value).__name__} is not a list.")
    return value


def _no_branch(name: str) -> Callable[[Any], Any]:
    def refuse(value: Any) -> Any:
        raise TypeError(f"{type(value).__name__} is none of the types of {name!r}.")

    return refuse


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str | bytes | Enum | Decimal | datetime.date)


def _unfit(record: RecordType, field: Field, why: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"The field {field.name!r} of {record.names.name} {why}.",
        next="Change the class, or use the schema that belongs to it.",
        field=field.name,
    )
