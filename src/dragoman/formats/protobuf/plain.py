"""Messages as plain values: a dict with every field of the message, by name.

A field that can be absent and is, is ``None``; one that cannot has its default. Enum values are their names,
or their numbers where the schema has no name. Times, durations, decimals, wrappers and JSON are Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from dragoman.formats.protobuf.shape import attribute, is_map, map_parts, oneofs_of, reachable
from dragoman.formats.protobuf.values import SPECIAL, narrow
from dragoman.schema.compiling import Compilation


def compile_plain_reader(message: Descriptor) -> Callable[[Any], Any]:
    """From a message to its plain value."""
    special = SPECIAL.get(message.full_name)
    if special is not None:
        return special.read
    reader = _Reader()
    return reader.code.compile(reader.function(message))


def compile_plain_writer(message: Descriptor) -> Callable[[Any], Any]:
    """From a plain value to a message."""
    build = message_factory.GetMessageClass(message)
    special = SPECIAL.get(message.full_name)
    if special is not None and special.builds:
        return lambda value: special.write(value, build)
    if special is not None:
        return lambda value: build(**special.write(value))
    writer = _Writer()
    if not writer.prepares(message):
        return lambda value: build(**value)
    prepare = writer.code.compile(writer.function(message))
    return lambda value: build(**prepare(value))


class _Reader:
    def __init__(self) -> None:
        self.code = Compilation()
        self.names: dict[str, str] = {}

    def function(self, message: Descriptor) -> str:
        """The name of the function that reads this kind of message."""
        if message.full_name in self.names:
            return self.names[message.full_name]
        name = self.names[message.full_name] = f"read{len(self.names)}"
        has = self.code.bind(message_factory.GetMessageClass(message).HasField, "has")
        entries = ", ".join(f"{field.name!r}: {self.field(field, has)}" for field in message.fields)
        self.code.add(f"def {name}(m):\n    return {{{entries}}}")
        return name

    def field(self, field: FieldDescriptor, has: str) -> str:
        value = attribute("m", field.name)
        if is_map(field):
            return self.map(field, value)
        if field.is_repeated:
            each = self.single(field, "x")
            return f"list({value})" if each == "x" else f"[{each} for x in {value}]"
        read = self.single(field, value)
        if field.has_presence and not field.has_default_value:
            return f"({read} if {has}(m, {field.name!r}) else None)"
        return read

    def map(self, field: FieldDescriptor, value: str) -> str:
        each = self.single(map_parts(field)[1], "x")
        return f"dict({value})" if each == "x" else f"{{k: {each} for k, x in {value}.items()}}"

    def single(self, field: FieldDescriptor, value: str) -> str:
        if field.enum_type is not None:
            return f"{self.code.bind(enum_name(field.enum_type), 'enum')}({value})"
        message = field.message_type
        if message is None:
            return value
        special = SPECIAL.get(message.full_name)
        name = self.code.bind(special.read, "special") if special else self.function(message)
        return f"{name}({value})"


def enum_name(enum: EnumDescriptor) -> Callable[[int], str | int]:
    """From a number to the first name it has, or the number itself."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    find = names.get
    return lambda number: find(number, number)


class _Writer:
    """Most messages take a dict as it is; only those that hold special values need preparing."""

    def __init__(self) -> None:
        self.code = Compilation()
        self.names: dict[str, str] = {}
        self.prepared: dict[str, bool] = {}
        self.code.scope["narrow"] = narrow
        self.code.scope["one_of"] = one_of
        self.code.scope["not_a_string"] = not_a_string

    def prepares(self, message: Descriptor) -> bool:
        if message.full_name not in self.prepared:
            self.prepared[message.full_name] = any(
                each.full_name in SPECIAL or oneofs_of(each) or _needs_care(each)
                for each in reachable(message).values()
            )
        return self.prepared[message.full_name]

    def function(self, message: Descriptor) -> str:
        if message.full_name in self.names:
            return self.names[message.full_name]
        name = self.names[message.full_name] = f"write{len(self.names)}"
        lines = [f"def {name}(v):", "    v = dict(v)"]
        for oneof in oneofs_of(message):
            lines.append(f"    one_of(v, {tuple(field.name for field in oneof.fields)!r})")
        for field in message.fields:
            lines += self.field(field)
        self.code.add("\n".join([*lines, "    return v"]))
        return name

    def field(self, field: FieldDescriptor) -> list[str]:
        if is_map(field):
            each = self.single(map_parts(field)[1])
            made = f"{{k: {each} for k, x in x.items()}}"
        else:
            each = self.single(field)
            made = f"[{each} for x in not_a_string(x)]" if field.is_repeated else each
        if each == "x" and not (field.is_repeated and not is_map(field)):
            return []
        made = made if each != "x" else "not_a_string(x)"
        return [
            f"    x = v.get({field.name!r})",
            "    if x is not None:",
            f"        v[{field.name!r}] = {made}",
        ]

    def single(self, field: FieldDescriptor) -> str:
        message = field.message_type
        if message is None:
            return "narrow(x)" if field.type == field.TYPE_FLOAT else "x"
        special = SPECIAL.get(message.full_name)
        if special is None:
            return f"{self.function(message)}(x)" if self.prepares(message) else "x"
        write = self.code.bind(special.write, "special")
        if special.builds:
            return f"{write}(x, {self.code.bind(message_factory.GetMessageClass(message), 'class')})"
        return f"{write}(x)"


def _needs_care(message: Descriptor) -> bool:
    """A string is a sequence of strings, which nobody means; and not every float fits 32 bits."""
    return any(
        field.type == field.TYPE_FLOAT
        or (field.is_repeated and (field.cpp_type == field.CPPTYPE_STRING or field.enum_type is not None))
        for field in message.fields
    )


def not_a_string(value: Any) -> Any:
    if isinstance(value, str | bytes):
        raise TypeError(f"Expected a list, got {type(value).__name__}.")
    return value


def one_of(value: Mapping[str, Any], names: tuple[str, ...]) -> None:
    given = [name for name in names if value.get(name) is not None]
    if len(given) > 1:
        raise ValueError(f"Only one of {', '.join(given)} can be set.")
