"""The canonical .proto text of a file: one layout, no comments.

With ``order`` also the parts whose order means nothing are sorted, and types have their full names. Messages
keep their order, since payloads name them by index. With ``wire`` only what decides about the bytes is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from dragoman.formats.protobuf.lexer import quote, unescape
from dragoman.formats.protobuf.link import Symbols, float_text, join, resolve
from dragoman.formats.protobuf.options import dynamic_options
from dragoman.formats.protobuf.parser import EDITIONS, MAX_INT32, MAX_NUMBER, SCALARS, AnyOptions, Field

_TYPES = {number: name for name, number in SCALARS.items()}
_EDITION = {number: name for name, number in EDITIONS.items()}
_LABELS = {
    Field.LABEL_OPTIONAL: "optional ",
    Field.LABEL_REQUIRED: "required ",
    Field.LABEL_REPEATED: "repeated ",
}
_VISIBILITY = {pb.VISIBILITY_EXPORT: "export ", pb.VISIBILITY_LOCAL: "local "}
_WIRE_OPTIONS = frozenset({"packed", "allow_alias", "features", "message_set_wire_format"})
_HIDDEN_OPTIONS = frozenset({"map_entry", "uninterpreted_option"})

Lines = list[str]
Nested = Mapping[str, pb.DescriptorProto]


def print_file(
    file: pb.FileDescriptorProto,
    pool: DescriptorPool,
    symbols: Symbols,
    *,
    order: bool = False,
    wire: bool = False,
) -> str:
    return _Printer(file, pool, symbols, order, wire).text()


class _Printer:
    def __init__(
        self, file: pb.FileDescriptorProto, pool: DescriptorPool, symbols: Symbols, order: bool, wire: bool
    ) -> None:
        self.file = file
        self.pool = pool
        self.symbols = symbols
        self.order = order
        self.wire = wire

    def text(self) -> str:
        file = self.file
        if file.syntax == "editions":
            head = f'edition = "{_EDITION[file.edition]}";'
        else:
            head = f'syntax = "{file.syntax or "proto2"}";'
        parts: list[Lines] = [[head]]
        if file.package:
            parts.append([f"package {file.package};"])
        if not self.wire:
            parts.append(self.imports())
        parts.append(self.option_statements(file.options))
        enums = sorted(file.enum_type, key=lambda each: each.name) if self.order else file.enum_type
        parts += (self.enum(each, file.package) for each in enums)
        groups = groups_of(file.extension)
        parts += (self.message(each, file.package) for each in file.message_type if each.name not in groups)
        parts += self.extensions(file.extension, by_name(file.message_type), file.package)
        if not self.wire:
            services = sorted(file.service, key=lambda each: each.name) if self.order else file.service
            parts += (self.service(each) for each in services)
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def imports(self) -> Lines:
        file = self.file
        kinds = dict.fromkeys(file.public_dependency, "public ")
        kinds |= dict.fromkeys(file.weak_dependency, "weak ")
        lines = [f"import {kinds.get(index, '')}{shown(name)};" for index, name in enumerate(file.dependency)]
        lines += [f"import option {shown(name)};" for name in file.option_dependency]
        return sorted(lines) if self.order else lines

    def type_name(self, full: str, scope: str) -> str:
        """The shortest of the usual ways to write a type that means this one here."""
        name = full.removeprefix(".")
        if self.order:
            return full
        package = self.file.package + "." if self.file.package else ""
        shortened = {name.removeprefix(scope + "."), name.removeprefix(package), name}
        for candidate in sorted(shortened, key=len):
            if (
                resolve(candidate, scope, self.symbols, ("message", "enum")) == name
                and candidate not in SCALARS
            ):
                return candidate
        return full

    # Messages.

    def message(self, message: pb.DescriptorProto, outer: str) -> Lines:
        head = f"{_VISIBILITY.get(message.visibility, '')}message {message.name} {{"
        return [head, *indented(self.body(message, join(outer, message.name))), "}"]

    def body(self, message: pb.DescriptorProto, scope: str) -> Lines:
        lines = self.option_statements(message.options)
        lines += self.reserved(message, MAX_NUMBER, 1)
        lines += self.extension_ranges(message)
        enums = sorted(message.enum_type, key=lambda each: each.name) if self.order else message.enum_type
        for enum in enums:
            lines += self.enum(enum, scope)
        for part in self.members(message, scope):
            lines += part
        for lines_of_extension in self.extensions(message.extension, by_name(message.nested_type), scope):
            lines += lines_of_extension
        return lines

    def members(self, message: pb.DescriptorProto, scope: str) -> Iterator[Lines]:
        """Fields, with the nested messages between them so that each keeps its index.

        Maps and groups bring a nested message of their own, which has an index too.
        """
        made = {each.name for each in message.nested_type if each.options.map_entry}
        made |= groups_of(message.field) | groups_of(message.extension)
        waiting: list[tuple[int, pb.DescriptorProto]] = []
        before = 0
        for nested in message.nested_type:
            if nested.name in made:
                before += 1
            else:
                waiting.append((before, nested))
        emitted = 0
        waiting.reverse()
        nested_types = by_name(message.nested_type)
        for fields in self.items(message):
            while waiting and waiting[-1][0] <= emitted:
                yield self.message(waiting.pop()[1], scope)
            yield self.item(message, fields, nested_types, scope)
            emitted += sum(field.type_name.rpartition(".")[2] in made for field in fields)
        for _, nested in reversed(waiting):
            yield self.message(nested, scope)

    def items(self, message: pb.DescriptorProto) -> list[list[Field]]:
        """The fields in order, those of one oneof together."""
        fields = list(message.field)
        if self.order and not groups_of(fields):
            fields.sort(key=lambda each: each.number)
        items: list[list[Field]] = []
        oneofs: dict[int, list[Field]] = {}
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                items.append([field])
            elif field.oneof_index in oneofs:
                oneofs[field.oneof_index].append(field)
            else:
                oneofs[field.oneof_index] = [field]
                items.append(oneofs[field.oneof_index])
        return items

    def item(self, message: pb.DescriptorProto, fields: list[Field], nested: Nested, scope: str) -> Lines:
        first = fields[0]
        if not first.HasField("oneof_index") or first.proto3_optional:
            return self.field(first, nested, scope)
        oneof = message.oneof_decl[first.oneof_index]
        lines = self.option_statements(oneof.options)
        for field in fields:
            lines += self.field(field, nested, scope)
        return [f"oneof {oneof.name} {{", *indented(lines), "}"]

    def field(self, field: Field, nested: Nested, scope: str) -> Lines:
        options = self.bracketed(field.options, self.pseudo_options(field))
        if field.type == Field.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            group = nested[name]
            head = f"{self.label(field)}group {name} = {field.number}{options} {{"
            return [head, *indented(self.body(group, join(scope, name))), "}"]
        entry = nested.get(field.type_name.rpartition(".")[2]) if is_entry_field(field) else None
        entry = entry if entry is not None and entry.options.map_entry else None
        if entry is not None:
            key, value = (self.type(each, join(scope, entry.name)) for each in entry.field)
            return [f"map<{key}, {value}> {field.name} = {field.number}{options};"]
        return [f"{self.label(field)}{self.type(field, scope)} {field.name} = {field.number}{options};"]

    def label(self, field: Field) -> str:
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        plain = self.file.syntax in ("proto3", "editions") and not field.proto3_optional
        if in_oneof or (plain and field.label == Field.LABEL_OPTIONAL):
            return ""
        return _LABELS[field.label]

    def type(self, field: Field, scope: str) -> str:
        return self.type_name(field.type_name, scope) if field.type_name else _TYPES[field.type]

    def pseudo_options(self, field: Field) -> Iterator[str]:
        if field.HasField("default_value"):
            yield f"default = {default_literal(field)}"
        if field.HasField("json_name") and not self.wire and field.json_name != json_name(field.name):
            yield f"json_name = {shown(field.json_name)}"

    def reserved(self, owner: pb.DescriptorProto | pb.EnumDescriptorProto, high: int, open: int) -> Lines:
        ranges = [(each.start, each.end - open) for each in owner.reserved_range]
        names = list(owner.reserved_name)
        if self.order:
            ranges, names = sorted(ranges), sorted(names)
        bare = self.file.syntax == "editions"
        lines = [f"reserved {', '.join(range_text(*each, high) for each in ranges)};"] if ranges else []
        lines += [f"reserved {', '.join(names if bare else map(shown, names))};"] if names else []
        return lines

    def extension_ranges(self, message: pb.DescriptorProto) -> Lines:
        lines = []
        for each in sorted(message.extension_range, key=lambda each: each.start if self.order else 0):
            options = self.bracketed(each.options)
            lines.append(f"extensions {range_text(each.start, each.end - 1, MAX_NUMBER)}{options};")
        return lines

    def extensions(self, fields: Sequence[Field], nested: Nested, scope: str) -> Iterator[Lines]:
        groups: dict[str, list[Field]] = {}
        for field in fields:
            groups.setdefault(field.extendee, []).append(field)
        for extendee in sorted(groups) if self.order else groups:
            lines: Lines = []
            for field in sorted(groups[extendee], key=lambda each: each.number if self.order else 0):
                lines += self.field(field, nested, scope)
            yield [f"extend {self.type_name(extendee, scope)} {{", *indented(lines), "}"]

    # Enums and services.

    def enum(self, enum: pb.EnumDescriptorProto, scope: str) -> Lines:
        lines = self.option_statements(enum.options)
        lines += self.reserved(enum, MAX_INT32, 0)
        values = list(enum.value)
        if self.order:
            # The first value is the default and stays the first.
            values[1:] = sorted(values[1:], key=lambda each: each.number)
        lines += [f"{each.name} = {each.number}{self.bracketed(each.options)};" for each in values]
        return [f"{_VISIBILITY.get(enum.visibility, '')}enum {enum.name} {{", *indented(lines), "}"]

    def service(self, service: pb.ServiceDescriptorProto) -> Lines:
        lines = self.option_statements(service.options)
        scope = join(self.file.package, service.name)
        for method in sorted(service.method, key=lambda each: each.name if self.order else ""):
            takes = "stream " * method.client_streaming + self.type_name(method.input_type, scope)
            gives = "stream " * method.server_streaming + self.type_name(method.output_type, scope)
            head = f"rpc {method.name}({takes}) returns ({gives})"
            options = self.option_statements(method.options)
            if options:
                lines += [f"{head} {{", *indented(options), "}"]
            else:
                lines.append(f"{head} {{}}" if method.HasField("options") else f"{head};")
        return [f"service {service.name} {{", *indented(lines), "}"]

    # Options.

    def option_statements(self, options: AnyOptions) -> Lines:
        return [f"option {each};" for each in self.options(options)]

    def bracketed(self, options: AnyOptions, first: Iterator[str] = iter(())) -> str:
        found = [*first, *self.options(options)]
        return f" [{', '.join(found)}]" if found else ""

    def options(self, options: AnyOptions) -> Iterator[str]:
        if not options.ByteSize():
            return
        for field, value in dynamic_options(options, self.pool).ListFields():
            if field.name in _HIDDEN_OPTIONS or (self.wire and field.name not in _WIRE_OPTIONS):
                continue
            name = f"({field.full_name})" if field.is_extension else field.name
            for each in value if field.is_repeated else (value,):
                if isinstance(each, Message) and not field.is_extension and field.name == "features":
                    for inner, setting in each.ListFields():
                        yield f"{name}.{inner.name} = {option_value(inner, setting)}"
                else:
                    yield f"{name} = {option_value(field, each)}"


def option_value(field: FieldDescriptor, value: object) -> str:
    if isinstance(value, Message):
        text = text_format.MessageToString(value, as_one_line=True, use_short_repeated_primitives=True)
        return "{ " + text.strip() + " }" if text.strip() else "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        return quote(value.encode() if isinstance(value, str) else value)
    if field.enum_type is not None and isinstance(value, int):
        found = field.enum_type.values_by_number.get(value)
        return found.name if found is not None else str(value)
    return float_text(value) if isinstance(value, float) else str(value)


def default_literal(field: Field) -> str:
    if field.type == Field.TYPE_STRING:
        return shown(field.default_value)
    if field.type == Field.TYPE_BYTES:
        return quote(unescape('"' + field.default_value.replace('"', '\\"').replace('\\\\"', '\\"') + '"'))
    return field.default_value


def json_name(name: str) -> str:
    """The name that Protobuf gives a field in JSON unless told otherwise."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def by_name(nested: Sequence[pb.DescriptorProto]) -> Nested:
    return {each.name: each for each in nested}


def is_entry_field(field: Field) -> bool:
    """Whether a field could be a map."""
    return field.type == Field.TYPE_MESSAGE and field.label == Field.LABEL_REPEATED


def groups_of(fields: Sequence[Field]) -> set[str]:
    """The names of messages that are written as groups."""
    return {each.type_name.rpartition(".")[2] for each in fields if each.type == Field.TYPE_GROUP}


def range_text(start: int, end: int, high: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end == high else end}"


def shown(text: str) -> str:
    return quote(text.encode())


def indented(lines: Lines) -> Lines:
    return ["  " + line for line in lines]
