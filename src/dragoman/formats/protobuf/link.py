"""What the names in a file mean: types, extended messages, and the defaults of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from google.protobuf import descriptor_pb2 as pb

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.parser import Field, Path, Syntax

Symbols = Mapping[str, str]
"""Full name, without a leading dot, to ``message``, ``enum``, ``package``, ``extension`` or ``service``."""

_INTEGERS = {
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_SINT32: (-(2**31), 2**31 - 1),
    Field.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_SINT64: (-(2**63), 2**63 - 1),
    Field.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_FIXED32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
    Field.TYPE_FIXED64: (0, 2**64 - 1),
}


def join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def symbols_of(file: pb.FileDescriptorProto) -> dict[str, str]:
    """Everything a file defines by full name, its packages included."""
    found: dict[str, str] = {}
    parts = file.package.split(".") if file.package else []
    for length in range(1, len(parts) + 1):
        found[".".join(parts[:length])] = "package"
    for message in file.message_type:
        _message_symbols(message, file.package, found)
    for enum in file.enum_type:
        found[join(file.package, enum.name)] = "enum"
    for service in file.service:
        found[join(file.package, service.name)] = "service"
    for extension in file.extension:
        found[join(file.package, extension.name)] = "extension"
    return found


def _message_symbols(message: pb.DescriptorProto, scope: str, found: dict[str, str]) -> None:
    name = join(scope, message.name)
    found[name] = "message"
    for enum in message.enum_type:
        found[join(name, enum.name)] = "enum"
    for extension in message.extension:
        found[join(name, extension.name)] = "extension"
    for nested in message.nested_type:
        _message_symbols(nested, name, found)


def resolve(name: str, scope: str, symbols: Symbols, kinds: tuple[str, ...]) -> str | None:
    """The full name that ``name`` has within ``scope``: the innermost scope that knows its first part."""
    if name.startswith("."):
        return name[1:] if symbols.get(name[1:]) in kinds else None
    first = name.partition(".")[0]
    while True:
        candidate = join(scope, name)
        if symbols.get(candidate) in kinds:
            return candidate
        if first != name and symbols.get(join(scope, first)) == "message":
            return None
        if not scope:
            return None
        scope = scope.rpartition(".")[0]


class Linker:
    """Resolves one file in place. ``visible`` holds the symbols of its imports."""

    def __init__(self, syntax: Syntax, visible: Symbols) -> None:
        self.syntax = syntax
        self.file = syntax.file
        self.symbols = {**visible, **symbols_of(syntax.file)}

    def error(self, what: str, path: Path, next: str = "") -> InvalidSchema:
        places = self.syntax.places
        while path and path not in places:
            path = path[:-1]
        return self.syntax.source.error(what, places.get(path, 0), next)

    def link(self) -> None:
        for message, path, scope in messages_of(self.file):
            name = join(scope, message.name)
            for index, field in enumerate(message.field):
                self.field(field, name, (*path, 2, index))
            for index, field in enumerate(message.extension):
                self.extension(field, name, (*path, 6, index))
        for index, field in enumerate(self.file.extension):
            self.extension(field, self.file.package, (7, index))
        for index, service in enumerate(self.file.service):
            for number, method in enumerate(service.method):
                self.method(method, join(self.file.package, service.name), (6, index, 2, number))

    def type_name(self, name: str, scope: str, path: Path, kinds: tuple[str, ...]) -> str:
        found = resolve(name, scope, self.symbols, kinds)
        if found is None:
            other = resolve(name, scope, self.symbols, ("message", "enum", "service", "extension"))
            if other is not None:
                raise self.error(f"{name!r} is not a {kinds[0]}, but of kind {self.symbols[other]}.", path)
            raise self.error(
                f"The type {name!r} is not defined.", path, "Define it, or import the file that does."
            )
        return "." + found

    def field(self, field: Field, scope: str, path: Path) -> None:
        if field.type_name:
            # A map's entry and a group's message stand in the same scope, but the name may be hidden.
            field.type_name = self.type_name(field.type_name, scope, (*path, 6), ("message", "enum"))
            if field.type != Field.TYPE_GROUP:
                enum = self.symbols[field.type_name[1:]] == "enum"
                field.type = Field.TYPE_ENUM if enum else Field.TYPE_MESSAGE
        default = self.syntax.defaults.get(path)
        if default is not None:
            field.default_value = self.default(field, default, (*path, 7))

    def extension(self, field: Field, scope: str, path: Path) -> None:
        field.extendee = self.type_name(field.extendee, scope, (*path, 2), ("message",))
        self.field(field, scope, path)

    def method(self, method: pb.MethodDescriptorProto, scope: str, path: Path) -> None:
        method.input_type = self.type_name(method.input_type, scope, (*path, 2), ("message",))
        method.output_type = self.type_name(method.output_type, scope, (*path, 3), ("message",))

    def default(self, field: Field, option: pb.UninterpretedOption, path: Path) -> str:
        """The default in the form that descriptors keep it."""
        if field.label == Field.LABEL_REPEATED or field.type in (Field.TYPE_MESSAGE, Field.TYPE_GROUP):
            raise self.error("Only a single scalar or enum field has a default.", path)
        value = default_text(field, option)
        if value is None:
            raise self.error(f"The default does not fit the field {field.name!r}.", path)
        return value


def default_text(field: Field, option: pb.UninterpretedOption) -> str | None:
    kind = _kind(option)
    if field.type in _INTEGERS:
        if kind not in ("positive_int_value", "negative_int_value"):
            return None
        value = option.positive_int_value or option.negative_int_value
        low, high = _INTEGERS[field.type]
        return str(value) if low <= value <= high else None
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return _float_text(option, kind)
    if field.type == Field.TYPE_BOOL:
        return option.identifier_value if option.identifier_value in ("true", "false") else None
    if field.type == Field.TYPE_ENUM:
        return option.identifier_value or None if kind == "identifier_value" else None
    if kind != "string_value":
        return None
    if field.type == Field.TYPE_BYTES:
        return escaped(option.string_value)
    try:
        return option.string_value.decode()
    except UnicodeDecodeError:
        return None


def _kind(option: pb.UninterpretedOption) -> str:
    return next((field.name for field, _ in option.ListFields() if field.name != "name"), "")


def _float_text(option: pb.UninterpretedOption, kind: str) -> str | None:
    if kind == "identifier_value":
        return option.identifier_value if option.identifier_value in ("inf", "nan") else None
    if kind in ("positive_int_value", "negative_int_value"):
        return float_text(float(option.positive_int_value or option.negative_int_value))
    return float_text(option.double_value) if kind == "double_value" else None


def float_text(value: float) -> str:
    """The shortest text that reads back to the same number; whole numbers without a point."""
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text.removesuffix(".0")


def escaped(raw: bytes) -> str:
    """Bytes as descriptors keep them in a default: C escapes, without quotes."""
    shown = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(shown.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in raw)


def messages_of(file: pb.FileDescriptorProto) -> Iterator[tuple[pb.DescriptorProto, Path, str]]:
    """Each message with its path and the scope that holds it, outer before inner."""
    waiting: list[tuple[pb.DescriptorProto, Path, str]] = []
    for index in range(len(file.message_type) - 1, -1, -1):
        waiting.append((file.message_type[index], (4, index), file.package))
    while waiting:
        message, path, scope = waiting.pop()
        yield message, path, scope
        inner = join(scope, message.name)
        for index in range(len(message.nested_type) - 1, -1, -1):
            waiting.append((message.nested_type[index], (*path, 3, index), inner))


def enums_of(file: pb.FileDescriptorProto) -> Iterator[tuple[pb.EnumDescriptorProto, Path, str]]:
    for index, enum in enumerate(file.enum_type):
        yield enum, (5, index), file.package
    for message, path, scope in messages_of(file):
        for index, enum in enumerate(message.enum_type):
            yield enum, (*path, 4, index), join(scope, message.name)
