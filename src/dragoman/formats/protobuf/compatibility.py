"""Whether a reader's schema reads a writer's data: fields are compared by number, as on the wire.

The rule names are those of Confluent's checker. ``EXACT`` adds what it overlooks, ``LENIENT`` leaves out what
does not change how bytes are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from dragoman.core.contract import Incompatibility
from dragoman.core.format import Policy
from dragoman.formats.protobuf.check import Numbers
from dragoman.formats.protobuf.counterexample import example
from dragoman.formats.protobuf.schema import ProtobufSchema
from dragoman.formats.protobuf.shape import held_by, is_map, map_parts, oneof_of, oneofs_of, owner_of

F = FieldDescriptor
_GROUPS: dict[int, str] = {
    F.TYPE_INT32: "integer", F.TYPE_INT64: "integer", F.TYPE_UINT32: "integer", F.TYPE_UINT64: "integer",
    F.TYPE_BOOL: "integer", F.TYPE_ENUM: "integer",
    F.TYPE_SINT32: "zigzag integer", F.TYPE_SINT64: "zigzag integer",
    F.TYPE_STRING: "text", F.TYPE_BYTES: "text",
    F.TYPE_FIXED32: "fixed32", F.TYPE_SFIXED32: "fixed32",
    F.TYPE_FIXED64: "fixed64", F.TYPE_SFIXED64: "fixed64",
    F.TYPE_FLOAT: "float", F.TYPE_DOUBLE: "double",
}  # fmt: skip
_RANGES: dict[int, tuple[int, int]] = {
    F.TYPE_BOOL: (0, 1),
    F.TYPE_ENUM: (-(2**31), 2**31 - 1),
    F.TYPE_INT32: (-(2**31), 2**31 - 1),
    F.TYPE_SINT32: (-(2**31), 2**31 - 1),
    F.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    F.TYPE_UINT32: (0, 2**32 - 1),
    F.TYPE_FIXED32: (0, 2**32 - 1),
    F.TYPE_INT64: (-(2**63), 2**63 - 1),
    F.TYPE_SINT64: (-(2**63), 2**63 - 1),
    F.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    F.TYPE_UINT64: (0, 2**64 - 1),
    F.TYPE_FIXED64: (0, 2**64 - 1),
}
_TYPE_NAMES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_") and isinstance(number, int)
}
_HARMLESS = frozenset({"PACKAGE_CHANGED", "REQUIRED_FIELD_REMOVED", "ONEOF_FIELD_REMOVED"})
"""These leave the bytes readable; ``LENIENT`` accepts them."""


def incompatibilities(
    reader: ProtobufSchema, writer: ProtobufSchema, policy: Policy
) -> tuple[Incompatibility, ...]:
    """Every reason why the reader's file cannot stand in for the writer's."""
    return tuple(_Comparison(reader, writer, policy).run())


def unreadable(
    reader: ProtobufSchema, reads: Descriptor, writer: ProtobufSchema, written: Descriptor
) -> tuple[Incompatibility, ...]:
    """Why one message cannot be read as another, whatever else their files hold."""
    comparison = _Comparison(reader, writer, Policy.LENIENT)
    return tuple(reason for reason in comparison.messages(reads, written))


class _Comparison:
    def __init__(self, reader: ProtobufSchema, writer: ProtobufSchema, policy: Policy) -> None:
        self.reader = reader
        self.writer = writer
        self.exact = policy is Policy.EXACT
        self.ignored = _HARMLESS if policy is Policy.LENIENT else frozenset[str]()
        self.compared: set[tuple[str, str]] = set()

    def run(self) -> Iterator[Incompatibility]:
        old, new = self.writer.file.package, self.reader.file.package
        if old != new and "PACKAGE_CHANGED" not in self.ignored:
            yield Incompatibility(
                "PACKAGE_CHANGED",
                f"The package is {new or 'missing'!r} instead of {old or 'missing'!r}.",
                "#/",
                "#/",
            )
        found = {relative(self.reader, each): each for each in self.reader.messages.values()}
        simple = {each.name: each for each in reversed(self.reader.messages.values())}
        for message in self.writer.messages.values():
            name = relative(self.writer, message)
            counterpart = found.get(name) or simple.get(message.name)
            if counterpart is None:
                yield self.reason(
                    "MESSAGE_REMOVED",
                    f"The reader has no message {name}.",
                    None,
                    message,
                    example(message, []),
                )
            else:
                yield from self.messages(counterpart, message)

    def reason(
        self,
        rule: str,
        what: str,
        reads: Descriptor | FieldDescriptor | None,
        written: Descriptor | FieldDescriptor | None,
        counterexample: str | None = None,
    ) -> Incompatibility:
        return Incompatibility(
            rule, what, path(self.reader, reads), path(self.writer, written), counterexample
        )

    def broken(
        self, rule: str, what: str, reads: FieldDescriptor, written: FieldDescriptor, value: object = None
    ) -> Incompatibility:
        """A reason that any message with this field shows, or one with this value in it."""
        return self.reason(rule, what, reads, written, example(owner_of(written), [written], value))

    def messages(self, reads: Descriptor, written: Descriptor) -> Iterator[Incompatibility]:
        """The two messages, and those that their fields hold."""
        waiting = [(reads, written)]
        while waiting:
            pair = waiting.pop()
            names = (pair[0].full_name, pair[1].full_name)
            if names in self.compared:
                continue
            self.compared.add(names)
            for reason in self.message(*pair):
                if reason.rule not in self.ignored:
                    yield reason
            waiting += _inner(*pair)

    def message(self, reads: Descriptor, written: Descriptor) -> Iterator[Incompatibility]:
        for field in written.fields:
            counterpart = reads.fields_by_number.get(field.number)
            if counterpart is not None:
                yield from self.fields(counterpart, field)
            elif field.is_required:
                what = f"The required field {field.name!r} is gone."
                yield self.reason("REQUIRED_FIELD_REMOVED", what, reads, field)
        for field in reads.fields:
            other = written.fields_by_number.get(field.number)
            if field.is_required and (other is None or not other.is_required):
                what = f"The reader requires the field {field.name!r}, which the writer may leave out."
                yield self.reason("REQUIRED_FIELD_ADDED", what, field, written, example(written, []))
        yield from self.oneofs(reads, written)
        if self.exact:
            yield from self.reserved(reads, written)

    # Fields.

    def fields(self, reads: FieldDescriptor, written: FieldDescriptor) -> Iterator[Incompatibility]:
        if kind(reads) != kind(written):
            what = f"The field {written.name!r} is a {kind(reads)} instead of a {kind(written)}."
            yield self.broken("FIELD_KIND_CHANGED", what, reads, written)
            return
        if is_map(written):
            for inner in zip(map_parts(reads), map_parts(written), strict=True):
                yield from self.types(*inner, reads, written)
            return
        yield from self.types(reads, written, reads, written)
        yield from self.labels(reads, written)

    def types(
        self,
        reads: FieldDescriptor,
        written: FieldDescriptor,
        reads_field: FieldDescriptor,
        written_field: FieldDescriptor,
    ) -> Iterator[Incompatibility]:
        """The types of two fields, or of the keys or values of two maps."""
        if kind(reads) != kind(written):
            what = f"The field {written_field.name!r} holds a {kind(reads)} instead of a {kind(written)}."
            yield self.broken("FIELD_KIND_CHANGED", what, reads_field, written_field)
        elif written.message_type is not None:
            old, new = held_by(written), held_by(reads)
            if new.name != old.name:
                what = f"The field {written_field.name!r} is a {new.name} instead of a {old.name}."
                yield self.broken("FIELD_NAMED_TYPE_CHANGED", what, reads_field, written_field)
            elif (reads.type == F.TYPE_GROUP) != (written.type == F.TYPE_GROUP):
                what = f"The field {written_field.name!r} is encoded as a group on one side only."
                yield self.broken("FIELD_KIND_CHANGED", what, reads_field, written_field)
        elif _GROUPS[reads.type] != _GROUPS[written.type]:
            what = f"{written_field.name!r}: {shown_type(reads)} cannot read {shown_type(written)}."
            yield self.broken("FIELD_SCALAR_KIND_CHANGED", what, reads_field, written_field)
        elif self.exact:
            yield from self.values(reads, written, reads_field, written_field)

    def values(
        self,
        reads: FieldDescriptor,
        written: FieldDescriptor,
        reads_field: FieldDescriptor,
        written_field: FieldDescriptor,
    ) -> Iterator[Incompatibility]:
        """What fits the bytes, but not every value."""
        lost = _lost_value(reads, written)
        if lost is not None:
            what = f"{written_field.name!r}: {shown_type(reads)} does not hold every {shown_type(written)}."
            yield self.broken("FIELD_VALUES_NARROWED", what, reads_field, written_field, lost)
        if reads.enum_type is not None and written.enum_type is not None:
            missing = _missing_value(reads.enum_type, written.enum_type)
            if missing is not None:
                what = f"The reader's enum {reads.enum_type.name} has no number for {missing}."
                yield self.broken("ENUM_CONST_REMOVED", what, reads_field, written_field, missing)

    def labels(self, reads: FieldDescriptor, written: FieldDescriptor) -> Iterator[Incompatibility]:
        if reads.is_repeated == written.is_repeated:
            return
        what = f"The field {written.name!r} is {label(reads)} instead of {label(written)}."
        numeric = written.message_type is None and _GROUPS[written.type] != "text"
        if numeric and label_is_written(self.reader, reads) and label_is_written(self.writer, written):
            yield self.broken("FIELD_NUMERIC_LABEL_CHANGED", what, reads, written)
        elif self.exact:
            yield self.broken("FIELD_LABEL_CHANGED", what, reads, written)

    # Oneofs and reserved numbers.

    def oneofs(self, reads: Descriptor, written: Descriptor) -> Iterator[Incompatibility]:
        for oneof in oneofs_of(written):
            kept = any(field.number in reads.fields_by_number for field in oneof.fields)
            for field in oneof.fields:
                if kept and field.number not in reads.fields_by_number:
                    what = f"The reader's oneof {oneof.name!r} has lost its member {field.name!r}."
                    yield self.reason("ONEOF_FIELD_REMOVED", what, reads, field, example(written, [field]))
        for oneof in oneofs_of(reads):
            before = [written.fields_by_number.get(field.number) for field in oneof.fields]
            yield from self.joined(
                oneof.name, [field for field in before if field is not None], reads, written
            )

    def joined(
        self, name: str, before: list[FieldDescriptor], reads: Descriptor, written: Descriptor
    ) -> Iterator[Incompatibility]:
        """``before`` are the writer's fields that share a oneof in the reader: could two of them be set?"""
        alone = [field for field in before if oneof_of(field) is None]
        members = [field for field in before if oneof_of(field) is not None]
        if len(alone) > 1:
            what = f"{_names(alone)} could be set together, and now share the oneof {name!r}."
            shown = example(written, alone[:2])
            yield self.reason("MULTIPLE_FIELDS_MOVED_TO_ONEOF", what, reads, written, shown)
            return
        strangers = alone or [field for field in members if not _same_oneof(field, members[0])]
        if strangers and members:
            first = strangers[0]
            what = (
                f"{first.name!r} could be set beside {members[0].name!r}, and now shares the oneof {name!r}."
            )
            shown = example(written, [members[0], first])
            yield self.reason("FIELD_MOVED_TO_EXISTING_ONEOF", what, reads, first, shown)

    def reserved(self, reads: Descriptor, written: Descriptor) -> Iterator[Incompatibility]:
        """A number or a name that was given up may only come back as what it was."""
        raw = pb.DescriptorProto()
        written.CopyToProto(raw)
        numbers, names = Numbers(raw.reserved_range), set(raw.reserved_name)
        for field in reads.fields:
            number, name = field.number in numbers, field.name in names
            if number and not name:
                what = f"The field {field.name!r} uses the number {field.number}, which the writer reserves."
                yield self.reason("RESERVED_NUMBER_REUSED", what, field, written)
            if name and not number:
                what = f"The field {field.number} uses the name {field.name!r}, which the writer reserves."
                yield self.reason("RESERVED_NAME_REUSED", what, field, written)


def _inner(reads: Descriptor, written: Descriptor) -> Iterator[tuple[Descriptor, Descriptor]]:
    """The messages that equally numbered fields hold, where both sides hold the same kind."""
    for field in written.fields:
        other = reads.fields_by_number.get(field.number)
        if other is None or kind(other) != kind(field):
            continue
        if is_map(field):
            other, field = map_parts(other)[1], map_parts(field)[1]
        if field.message_type is not None and other.message_type is not None:
            yield other.message_type, field.message_type


def _lost_value(reads: FieldDescriptor, written: FieldDescriptor) -> object:
    """A value that the writer's type has and the reader's has not; ``None`` if there is none."""
    if written.type == F.TYPE_BYTES and reads.type == F.TYPE_STRING:
        return b"\xff"
    if written.type not in _RANGES or reads.type not in _RANGES:
        return None
    if reads.type == F.TYPE_ENUM and written.type != F.TYPE_ENUM:
        return 2**31 - 1 if _RANGES[written.type][1] > 1 else 1
    (low, high), (reader_low, reader_high) = _RANGES[written.type], _RANGES[reads.type]
    if high > reader_high:
        return high
    return low if low < reader_low else None


def _missing_value(reads: EnumDescriptor, written: EnumDescriptor) -> str | None:
    known = {value.number for value in reads.values}
    return next((value.name for value in written.values if value.number not in known), None)


def kind(field: FieldDescriptor) -> str:
    if is_map(field):
        return "map"
    return "scalar" if field.message_type is None else "message"


def shown_type(field: FieldDescriptor) -> str:
    return _TYPE_NAMES[field.type]


def label(field: FieldDescriptor) -> str:
    return "repeated" if field.is_repeated else "required" if field.is_required else "singular"


def label_is_written(schema: ProtobufSchema, field: FieldDescriptor) -> bool:
    """The usual checker sees a label only where it stands in the text."""
    if field.is_repeated or (field.containing_oneof is not None and oneof_of(field) is None):
        return True
    file = schema.imports.get(owner_of(field).file.name, schema.file)
    return file.syntax in ("", "proto2") and oneof_of(field) is None


def relative(schema: ProtobufSchema, message: Descriptor) -> str:
    """The name within the package."""
    package = schema.file.package
    return message.full_name.removeprefix(package + ".") if package else message.full_name


def path(schema: ProtobufSchema, part: Descriptor | FieldDescriptor | None) -> str:
    if part is None:
        return "#/"
    if isinstance(part, FieldDescriptor):
        return f"#/{relative(schema, owner_of(part))}/{part.number}"
    return f"#/{relative(schema, part)}"


def _same_oneof(one: FieldDescriptor, other: FieldDescriptor) -> bool:
    return one.containing_oneof == other.containing_oneof


def _names(fields: list[FieldDescriptor]) -> str:
    return ", ".join(repr(field.name) for field in fields)
