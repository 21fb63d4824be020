"""From a .proto text to a ``FileDescriptorProto``: the grammar, without any look at what names mean.

Types stay as written (``link`` resolves them) and options stay uninterpreted (``options`` reads them), as in
the first stage of any Protobuf compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as _Repeated

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.lexer import TOKEN, unescape
from dragoman.schema.scanning import Source, Token

Path = tuple[int, ...]
"""Where an element stands in the file: field numbers and indexes, as in ``SourceCodeInfo``."""

MAX_DEPTH = 64
MAX_NUMBER = 2**29 - 1
MAX_INT32 = 2**31 - 1
_LONGEST_NUMBER = 40

Field = pb.FieldDescriptorProto
SCALARS: dict[str, Field.Type.ValueType] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS = {
    "optional": Field.LABEL_OPTIONAL,
    "required": Field.LABEL_REQUIRED,
    "repeated": Field.LABEL_REPEATED,
}
_VISIBILITY = {"export": pb.VISIBILITY_EXPORT, "local": pb.VISIBILITY_LOCAL}
EDITIONS = {
    name.removeprefix("EDITION_"): number
    for name, number in pb.Edition.items()
    if name.removeprefix("EDITION_").isdigit()
}

AnyOptions = (
    pb.FileOptions
    | pb.MessageOptions
    | pb.FieldOptions
    | pb.OneofOptions
    | pb.EnumOptions
    | pb.EnumValueOptions
    | pb.ExtensionRangeOptions
    | pb.ServiceOptions
    | pb.MethodOptions
)


class Syntax(NamedTuple):
    """What the parser found: the file, the offset of each element in the text, defaults as written."""

    file: pb.FileDescriptorProto
    source: Source
    places: dict[Path, int]
    defaults: dict[Path, pb.UninterpretedOption]


def parse_text(text: str) -> Syntax:
    """Raises ``InvalidSchema`` with line and column at the first thing that is not Protobuf."""
    return _Parser(Source(text)).file()


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens(TOKEN)
        self.index = 0
        self.depth = 0
        self.places: dict[Path, int] = {}
        self.defaults: dict[Path, pb.UninterpretedOption] = {}
        self.proto3 = False
        self.edition = False

    # The cursor.

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def error(self, what: str, at: int | None = None, next: str = "") -> InvalidSchema:
        return self.source.error(what, self.token.at if at is None else at, next)

    def expected(self, what: str) -> InvalidSchema:
        found = repr(self.token.text) if self.token.kind != "end" else "the end of the text"
        return self.error(f"Expected {what}, found {found}.")

    def looking_at(self, text: str, after: int = 0) -> bool:
        index = min(self.index + after, len(self.tokens) - 1)
        return self.tokens[index].text == text

    def try_take(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.token.text != text or self.token.kind == "string":
            raise self.expected(repr(text))
        return self.take()

    def word(self, what: str) -> str:
        if self.token.kind != "word":
            raise self.expected(what)
        return self.take().text

    def dotted(self, what: str, absolute: bool = False) -> str:
        name = "." if absolute and self.try_take(".") else ""
        name += self.word(what)
        while self.try_take("."):
            name += "." + self.word(what)
        return name

    def string(self) -> bytes:
        if self.token.kind != "string":
            raise self.expected("a string in quotes")
        value = b""
        while self.token.kind == "string":
            token = self.take()
            try:
                value += unescape(token.text)
            except ValueError as error:
                raise self.error(str(error), token.at) from None
        return value

    def text(self) -> str:
        at = self.token.at
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            raise self.error("This string is not UTF-8.", at) from None

    def integer(self, what: str, low: int, high: int) -> int:
        at = self.token.at
        negative = low < 0 and self.try_take("-")
        if self.token.kind != "int":
            raise self.expected(what)
        value = whole(self.take().text) * (-1 if negative else 1)
        if not low <= value <= high:
            raise self.error(f"{value} is out of range.", at, f"Use {what} from {low} to {high}.")
        return value

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"Nested more than {MAX_DEPTH} levels deep.")

    def block(self, statement: Callable[[], None]) -> None:
        opened = self.expect("{")
        self.deeper()
        while not self.try_take("}"):
            if self.token.kind == "end":
                raise self.error("This '{' is never closed.", opened.at)
            if not self.try_take(";"):
                statement()
        self.depth -= 1

    # The file.

    def file(self) -> Syntax:
        file = pb.FileDescriptorProto()
        self.syntax(file)
        packaged = False
        while self.token.kind != "end":
            if self.try_take(";"):
                continue
            if self.looking_at("package"):
                if packaged:
                    raise self.error("The package is named a second time.")
                packaged = True
            self.top(file)
        return Syntax(file, self.source, self.places, self.defaults)

    def syntax(self, file: pb.FileDescriptorProto) -> None:
        if self.looking_at("syntax") and self.looking_at("=", 1):
            self.index += 2
            at, name = self.token.at, self.text()
            if name not in ("proto2", "proto3"):
                raise self.error(f"{name!r} is not a syntax.", at, "Write proto2 or proto3.")
            self.proto3 = name == "proto3"
            if self.proto3:
                file.syntax = name
            self.expect(";")
        elif self.looking_at("edition") and self.looking_at("=", 1):
            self.index += 2
            at, name = self.token.at, self.text()
            if name not in EDITIONS:
                raise self.error(f"{name!r} is not an edition.", at, f"Known: {', '.join(sorted(EDITIONS))}.")
            self.edition = True
            file.syntax = "editions"
            file.edition = EDITIONS[name]
            self.expect(";")

    def top(self, file: pb.FileDescriptorProto) -> None:
        match self.token.text:
            case "package":
                self.take()
                self.places[(2,)] = self.token.at
                file.package = self.dotted("a package name")
                self.expect(";")
            case "import":
                self.imported(file)
            case "option":
                self.option_statement(file.options, (8,))
            case "message":
                self.message(file.message_type.add(), (4, len(file.message_type) - 1))
            case "enum":
                self.enum(file.enum_type.add(), (5, len(file.enum_type) - 1))
            case "service":
                self.service(file.service.add(), (6, len(file.service) - 1))
            case "extend":
                self.extend(file.extension, file.message_type, (), 7, 4)
            case "export" | "local" if self.edition:
                self.visible(file.message_type, file.enum_type, (), (4, 5))
            case _:
                raise self.expected("message, enum, service, extend, import, option or package")

    def imported(self, file: pb.FileDescriptorProto) -> None:
        self.take()
        kind = self.take().text if self.token.text in ("public", "weak", "option") else ""
        if kind == "option":
            self.places[(15, len(file.option_dependency))] = self.token.at
            file.option_dependency.append(self.text())
        else:
            index = len(file.dependency)
            self.places[(3, index)] = self.token.at
            file.dependency.append(self.text())
            if kind == "public":
                file.public_dependency.append(index)
            elif kind == "weak":
                file.weak_dependency.append(index)
        self.expect(";")

    def visible(
        self,
        messages: _Repeated[pb.DescriptorProto],
        enums: _Repeated[pb.EnumDescriptorProto],
        path: Path,
        numbers: tuple[int, int],
    ) -> None:
        visibility = _VISIBILITY[self.take().text]
        if self.looking_at("message"):
            messages.add().visibility = visibility
            self.message(messages[-1], (*path, numbers[0], len(messages) - 1))
        elif self.looking_at("enum"):
            enums.add().visibility = visibility
            self.enum(enums[-1], (*path, numbers[1], len(enums) - 1))
        else:
            raise self.expected("message or enum")

    # Messages.

    def message(self, message: pb.DescriptorProto, path: Path) -> None:
        self.take()
        self.places[path] = self.token.at
        message.name = self.word("a message name")
        self.message_body(message, path)

    def message_body(self, message: pb.DescriptorProto, path: Path) -> None:
        self.block(lambda: self.message_statement(message, path))
        add_synthetic_oneofs(message)

    def message_statement(self, message: pb.DescriptorProto, path: Path) -> None:
        match self.token.text:
            case "message":
                self.message(message.nested_type.add(), (*path, 3, len(message.nested_type) - 1))
            case "enum":
                self.enum(message.enum_type.add(), (*path, 4, len(message.enum_type) - 1))
            case "extend":
                self.extend(message.extension, message.nested_type, path, 6, 3)
            case "extensions":
                self.extension_ranges(message, path)
            case "reserved":
                self.reserved(message, path, 1, MAX_NUMBER, 1)
            case "option":
                self.option_statement(message.options, (*path, 7))
            case "oneof":
                self.oneof(message, path)
            case "export" | "local" if self.edition and self.tokens[self.index + 1].text in (
                "message",
                "enum",
            ):
                self.visible(message.nested_type, message.enum_type, path, (3, 4))
            case "map" if self.looking_at("<", 1):
                self.map_field(message, path)
            case _:
                self.field(message.field, message.nested_type, (*path, 2), (*path, 3))

    def field(
        self,
        fields: _Repeated[Field],
        nested: _Repeated[pb.DescriptorProto],
        path: Path,
        nested_path: Path,
        oneof: int | None = None,
    ) -> None:
        start = self.token
        label = self.label(oneof is not None)
        if self.looking_at("map") and self.looking_at("<", 1):
            raise self.error("A map field has no label and stands in no oneof.", start.at)
        field = fields.add()
        path = (*path, len(fields) - 1)
        field.label = _LABELS[label] if label else Field.LABEL_OPTIONAL
        field.proto3_optional = label == "optional" and self.proto3
        if not field.proto3_optional:
            field.ClearField("proto3_optional")
        if oneof is not None:
            field.oneof_index = oneof
        if self.looking_at("group") and self.looking_at("=", 2):
            self.group(field, nested, path, nested_path)
        else:
            self.type(field, path)
            self.places[path] = self.token.at
            field.name = self.word("a field name")
            self.field_number(field, path)
            self.field_options(field, path)
            self.expect(";")

    def label(self, in_oneof: bool) -> str:
        if self.token.text not in _LABELS:
            if not (self.proto3 or self.edition or in_oneof):
                raise self.expected("optional, required or repeated, or the start of another statement")
            return ""
        at, label = self.token.at, self.take().text
        if in_oneof:
            raise self.error("A field of a oneof has no label.", at)
        if self.edition and label != "repeated":
            raise self.error(
                f"Editions have no label {label!r}.", at, "Use the option features.field_presence instead."
            )
        if self.proto3 and label == "required":
            raise self.error("proto3 has no required fields.", at, "Leave the label away.")
        return label

    def type(self, field: Field, path: Path) -> None:
        self.places[(*path, 6)] = self.token.at
        name = self.dotted("a type", absolute=True)
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def field_number(self, field: Field, path: Path) -> None:
        self.expect("=")
        self.places[(*path, 3)] = self.token.at
        field.number = self.integer("a field number", 1, MAX_NUMBER)

    def group(
        self, field: Field, nested: _Repeated[pb.DescriptorProto], path: Path, nested_path: Path
    ) -> None:
        at = self.take().at
        if self.proto3 or self.edition:
            raise self.error("Groups are of proto2 only.", at, "Use a nested message.")
        self.places[path] = self.token.at
        name = self.word("a group name")
        if not name[0].isupper():
            raise self.error("A group's name starts with a capital letter.", self.places[path])
        field.type, field.type_name, field.name = Field.TYPE_GROUP, name, name.lower()
        self.places[(*path, 6)] = self.places[path]
        self.field_number(field, path)
        self.field_options(field, path)
        message = nested.add()
        message.name = name
        inner = (*nested_path, len(nested) - 1)
        self.places[inner] = self.places[path]
        self.message_body(message, inner)

    def map_field(self, message: pb.DescriptorProto, path: Path) -> None:
        self.index += 2
        field = message.field.add()
        field_path = (*path, 2, len(message.field) - 1)
        entry = message.nested_type.add()
        entry_path = (*path, 3, len(message.nested_type) - 1)
        entry.options.map_entry = True
        for number, name, separator in ((1, "key", ","), (2, "value", ">")):
            part = entry.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
            self.type(part, (*entry_path, 2, number - 1))
            self.expect(separator)
        self.places[field_path] = self.places[entry_path] = self.places[(*field_path, 6)] = self.token.at
        field.name = self.word("a field name")
        field.label = Field.LABEL_REPEATED
        entry.name = field.type_name = entry_name(field.name)
        self.field_number(field, field_path)
        self.field_options(field, field_path)
        self.expect(";")

    def oneof(self, message: pb.DescriptorProto, path: Path) -> None:
        self.take()
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add()
        oneof_path = (*path, 8, index)
        self.places[oneof_path] = self.token.at
        oneof.name = self.word("a oneof name")

        def statement() -> None:
            if self.looking_at("option"):
                self.option_statement(oneof.options, (*oneof_path, 2))
            else:
                self.field(message.field, message.nested_type, (*path, 2), (*path, 3), index)

        self.block(statement)

    def extend(
        self,
        fields: _Repeated[Field],
        nested: _Repeated[pb.DescriptorProto],
        path: Path,
        number: int,
        nested_number: int,
    ) -> None:
        self.take()
        at = self.token.at
        extendee = self.dotted("a message name", absolute=True)

        def statement() -> None:
            if self.looking_at("map") and self.looking_at("<", 1):
                raise self.error("An extension cannot be a map.")
            self.places[(*path, number, len(fields), 2)] = at
            self.field(fields, nested, (*path, number), (*path, nested_number))
            fields[-1].extendee = extendee

        self.block(statement)

    def extension_ranges(self, message: pb.DescriptorProto, path: Path) -> None:
        self.take()
        first = len(message.extension_range)
        for start, end, at in self.ranges(1, MAX_NUMBER):
            self.places[(*path, 5, len(message.extension_range))] = at
            message.extension_range.add(start=start, end=end + 1)
        options = pb.ExtensionRangeOptions()
        self.bracketed(options, (*path, 5, first, 3))
        if options.uninterpreted_option:
            for index in range(first, len(message.extension_range)):
                message.extension_range[index].options.CopyFrom(options)
                for number in range(len(options.uninterpreted_option)):
                    self.places[(*path, 5, index, 3, number)] = self.places[(*path, 5, first, 3, number)]
        self.expect(";")

    def ranges(self, low: int, high: int) -> list[tuple[int, int, int]]:
        found = []
        while True:
            at = self.token.at
            start = end = self.integer("a number", low, high)
            if self.try_take("to"):
                end = high if self.try_take("max") else self.integer("a number", low, high)
                if end < start:
                    raise self.error(f"The range ends at {end}, before it starts.", at)
            found.append((start, end, at))
            if not self.try_take(","):
                return found

    def reserved(
        self, owner: pb.DescriptorProto | pb.EnumDescriptorProto, path: Path, low: int, high: int, open: int
    ) -> None:
        """``open`` is 1 where the end of a stored range is exclusive."""
        self.take()
        number = 9 if isinstance(owner, pb.DescriptorProto) else 4
        if self.token.kind in ("string", "word"):
            self.reserved_names(owner, (*path, number + 1))
        else:
            for start, end, at in self.ranges(low, high):
                self.places[(*path, number, len(owner.reserved_range))] = at
                owner.reserved_range.add(start=start, end=end + open)
        self.expect(";")

    def reserved_names(self, owner: pb.DescriptorProto | pb.EnumDescriptorProto, path: Path) -> None:
        if self.token.kind == "word" and not self.edition:
            raise self.expected("a number or a name in quotes")
        while True:
            self.places[(*path, len(owner.reserved_name))] = at = self.token.at
            name = self.word("a name") if self.edition else self.text()
            if not name.isidentifier() or not name.isascii():
                raise self.error(f"{name!r} is not a name.", at)
            owner.reserved_name.append(name)
            if not self.try_take(","):
                return

    # Enums and services.

    def enum(self, enum: pb.EnumDescriptorProto, path: Path) -> None:
        self.take()
        self.places[path] = self.token.at
        enum.name = self.word("an enum name")

        def statement() -> None:
            if self.looking_at("option") and not self.looking_at("=", 1):
                self.option_statement(enum.options, (*path, 3))
            elif self.looking_at("reserved") and not self.looking_at("=", 1):
                self.reserved(enum, path, -MAX_INT32 - 1, MAX_INT32, 0)
            else:
                value = enum.value.add()
                value_path = (*path, 2, len(enum.value) - 1)
                self.places[value_path] = self.token.at
                value.name = self.word("the name of an enum value")
                self.expect("=")
                self.places[(*value_path, 2)] = self.token.at
                value.number = self.integer("a number", -MAX_INT32 - 1, MAX_INT32)
                self.bracketed(value.options, (*value_path, 3))
                self.expect(";")

        self.block(statement)

    def service(self, service: pb.ServiceDescriptorProto, path: Path) -> None:
        self.take()
        self.places[path] = self.token.at
        service.name = self.word("a service name")

        def statement() -> None:
            if self.looking_at("option"):
                self.option_statement(service.options, (*path, 3))
            elif self.looking_at("rpc"):
                self.method(service.method.add(), (*path, 2, len(service.method) - 1))
            else:
                raise self.expected("rpc, option or '}'")

        self.block(statement)

    def method(self, method: pb.MethodDescriptorProto, path: Path) -> None:
        self.take()
        self.places[path] = self.token.at
        method.name = self.word("a method name")
        method.input_type, streams = self.method_type((*path, 2))
        if streams:
            method.client_streaming = True
        self.expect("returns")
        method.output_type, streams = self.method_type((*path, 3))
        if streams:
            method.server_streaming = True
        if self.looking_at("{"):
            method.options.SetInParent()
            self.block(lambda: self.option_statement(method.options, (*path, 4)))
        else:
            self.expect(";")

    def method_type(self, path: Path) -> tuple[str, bool]:
        self.expect("(")
        streams = self.looking_at("stream") and not self.looking_at(")", 1)
        if streams:
            self.take()
        self.places[path] = self.token.at
        name = self.dotted("a message name", absolute=True)
        self.expect(")")
        return name, streams

    # Options.

    def option_statement(self, options: AnyOptions, path: Path) -> None:
        self.expect("option")
        self.option(options, path)
        self.expect(";")

    def bracketed(self, options: AnyOptions, path: Path) -> None:
        if not self.try_take("["):
            return
        while True:
            self.option(options, path)
            if self.try_take("]"):
                return
            self.expect(",")

    def field_options(self, field: Field, path: Path) -> None:
        """``default`` and ``json_name`` look like options, but are parts of the field."""
        self.bracketed(field.options, (*path, 8))
        kept: list[pb.UninterpretedOption] = []
        places: list[int] = []
        for index, option in enumerate(field.options.uninterpreted_option):
            at = self.places.pop((*path, 8, index))
            name = (
                option.name[0].name_part if len(option.name) == 1 and not option.name[0].is_extension else ""
            )
            if name in ("default", "json_name"):
                self.pseudo_option(field, path, name, option, at)
                self.places[(*path, 7 if name == "default" else 10)] = at
            else:
                kept.append(option)
                places.append(at)
        if len(kept) < len(field.options.uninterpreted_option):
            copies = pb.FieldOptions(uninterpreted_option=kept)
            field.options.CopyFrom(copies)
        self.places.update({(*path, 8, index): at for index, at in enumerate(places)})
        if not kept:
            field.ClearField("options")

    def pseudo_option(
        self, field: Field, path: Path, name: str, option: pb.UninterpretedOption, at: int
    ) -> None:
        if path in self.defaults if name == "default" else field.HasField("json_name"):
            raise self.error(f"The option {name!r} is given twice.", at)
        if name == "json_name":
            if not option.HasField("string_value"):
                raise self.error("json_name is a string.", at)
            field.json_name = option.string_value.decode(errors="replace")
        elif self.proto3:
            raise self.error("proto3 has no defaults of its own.", at, "Leave the option away.")
        else:
            self.defaults[path] = pb.UninterpretedOption.FromString(option.SerializeToString())

    def option(self, options: AnyOptions, path: Path) -> None:
        index = len(options.uninterpreted_option)
        self.places[(*path, index)] = self.token.at
        option = options.uninterpreted_option.add()
        while True:
            part = option.name.add()
            part.is_extension = self.try_take("(")
            if part.is_extension:
                part.name_part = self.dotted("an option name", absolute=True)
                self.expect(")")
            else:
                part.name_part = self.word("an option name")
            if not self.try_take("."):
                break
        self.expect("=")
        self.constant(option)

    def constant(self, option: pb.UninterpretedOption) -> None:
        if self.looking_at("{"):
            option.aggregate_value = self.aggregate()
            return
        if self.token.kind == "string":
            option.string_value = self.string()
            return
        if self.token.kind == "word":
            option.identifier_value = self.take().text
            return
        negative = self.try_take("-")
        token = self.take()
        if token.kind == "int":
            value = whole(token.text)
            if value > 2**64 - 1 or (negative and value > 2**63):
                option.double_value = -float(value) if negative else float(value)
            elif negative:
                option.negative_int_value = -value
            else:
                option.positive_int_value = value
        elif token.kind == "float" or (negative and token.text in ("inf", "nan")):
            option.double_value = -float(token.text) if negative else float(token.text)
        else:
            self.index -= token.kind != "end"
            raise self.expected("a value")

    def aggregate(self) -> str:
        """The text between braces without comments; it is read once the option's type is known."""
        opened, parts, depth, end = self.token, list[str](), 0, self.token.at
        while True:
            token = self.take()
            if token.kind == "end":
                raise self.error("This '{' is never closed.", opened.at)
            if token.at > end:
                parts.append(" ")
            end = token.at + len(token.text)
            if token.kind == "mark" and token.text in "{[<":
                depth += 1
                if depth > MAX_DEPTH:
                    raise self.error(f"Nested more than {MAX_DEPTH} levels deep.", token.at)
            elif token.kind == "mark" and token.text in "}]>":
                depth -= 1
                if depth == 0:
                    return "".join(parts[1:]).strip()
            parts.append(token.text)


def whole(text: str) -> int:
    """An integer in decimal, hexadecimal (0x) or octal (0). One that is very long is just very large."""
    if len(text) > _LONGEST_NUMBER:
        return 2**128
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8) if text.startswith("0") else int(text)


def entry_name(field: str) -> str:
    """The name of the message that stands behind a map field."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def add_synthetic_oneofs(message: pb.DescriptorProto) -> None:
    """A proto3 field marked optional lives in a oneof of its own, after the written ones."""
    taken = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
    for field in message.field:
        if field.proto3_optional:
            name = "_" + field.name
            while name in taken:
                name = "X" + name
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add().name = name
