"""The rules beyond grammar: numbers, names, ranges and what each syntax allows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from google.protobuf import descriptor_pb2 as pb

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.link import enums_of, join, messages_of
from dragoman.formats.protobuf.parser import MAX_NUMBER, Field, Path

Complaint = Callable[[str, Path, str], InvalidSchema]
Range = (
    pb.DescriptorProto.ReservedRange
    | pb.DescriptorProto.ExtensionRange
    | pb.EnumDescriptorProto.EnumReservedRange
)

_RESERVED_BY_PROTOBUF = range(19000, 20000)
_MAP_KEYS = frozenset(
    {
        Field.TYPE_BOOL, Field.TYPE_STRING,
        Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64,
        Field.TYPE_SINT32, Field.TYPE_SINT64, Field.TYPE_FIXED32, Field.TYPE_FIXED64,
        Field.TYPE_SFIXED32, Field.TYPE_SFIXED64,
    }
)  # fmt: skip
_ENTRY = [("key", 1), ("value", 2)]
_UNPACKABLE = frozenset({Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE, Field.TYPE_GROUP})


def check(file: pb.FileDescriptorProto, complain: Complaint) -> None:
    """Raises the first complaint about a linked file."""
    Checker(file, complain).run()


class Checker:
    def __init__(self, file: pb.FileDescriptorProto, complain: Complaint) -> None:
        self.file = file
        self.complain = complain
        self.proto3 = file.syntax == "proto3"

    def run(self) -> None:
        file = self.file
        members: list[tuple[str, Path]] = [
            *((each.name, (4, index)) for index, each in enumerate(file.message_type)),
            *((each.name, (5, index)) for index, each in enumerate(file.enum_type)),
            *((each.name, (6, index)) for index, each in enumerate(file.service)),
            *((each.name, (7, index)) for index, each in enumerate(file.extension)),
        ]
        for number, enum in enumerate(file.enum_type):
            members += ((value.name, (5, number, 2, index)) for index, value in enumerate(enum.value))
        self.unique(members, file.package or "the file")
        for message, path, scope in messages_of(file):
            self.message(message, path, join(scope, message.name))
        for enum, path, scope in enums_of(file):
            self.enum(enum, path, join(scope, enum.name))
        for index, service in enumerate(file.service):
            methods = [(each.name, (6, index, 2, number)) for number, each in enumerate(service.method)]
            self.unique(methods, service.name)
        self.imports()

    def unique(self, members: Iterable[tuple[str, Path]], owner: str) -> None:
        seen: set[str] = set()
        for name, path in members:
            if name in seen:
                raise self.complain(f"{name!r} is defined twice in {owner}.", path, "Rename one of them.")
            seen.add(name)

    def imports(self) -> None:
        seen: set[str] = set()
        for index, name in enumerate(self.file.dependency):
            if name in seen:
                raise self.complain(f"{name!r} is imported twice.", (3, index), "")
            seen.add(name)

    # Messages.

    def message(self, message: pb.DescriptorProto, path: Path, name: str) -> None:
        members = [
            *((each.name, (*path, 2, index)) for index, each in enumerate(message.field)),
            *((each.name, (*path, 3, index)) for index, each in enumerate(message.nested_type)),
            *((each.name, (*path, 4, index)) for index, each in enumerate(message.enum_type)),
            *((each.name, (*path, 6, index)) for index, each in enumerate(message.extension)),
            *((each.name, (*path, 8, index)) for index, each in enumerate(message.oneof_decl)),
        ]
        for number, enum in enumerate(message.enum_type):
            members += ((value.name, (*path, 4, number, 2, index)) for index, value in enumerate(enum.value))
        self.unique(members, name)
        self.ranges(message, path)
        self.numbers(message, path, name)
        for index, field in enumerate(message.field):
            self.field(field, (*path, 2, index))
        for index, field in enumerate(message.extension):
            self.field(field, (*path, 6, index))
        filled = {field.oneof_index for field in message.field if field.HasField("oneof_index")}
        for index, oneof in enumerate(message.oneof_decl):
            if index not in filled:
                raise self.complain(f"The oneof {oneof.name!r} has no fields.", (*path, 8, index), "")
        if message.options.map_entry and [(each.name, each.number) for each in message.field] != _ENTRY:
            raise self.complain(f"{name} is not an entry of a map.", path, "")
        if message.options.map_entry and message.field[0].type not in _MAP_KEYS:
            raise self.complain(
                "A map's key is a string, a bool or an integer.", (*path, 2, 0, 6), "Use another key type."
            )

    def ranges(self, message: pb.DescriptorProto, path: Path) -> None:
        if message.extension_range and self.proto3:
            raise self.complain(
                "proto3 messages have no extensions.", (*path, 5, 0), "Use google.protobuf.Any."
            )
        both: tuple[tuple[int, Sequence[Range]], ...] = (
            (9, message.reserved_range),
            (5, message.extension_range),
        )
        placed = [
            (each.start, each.end, (*path, number, index))
            for number, ranges in both
            for index, each in enumerate(ranges)
        ]
        reached = 0
        for start, end, place in sorted(placed):
            if start < 1 or end <= start or end > MAX_NUMBER + 1:
                raise self.complain(f"{start} to {end - 1} is no range.", place, "")
            if start < reached:
                raise self.complain(f"The range {start} to {end - 1} overlaps another one.", place, "")
            reached = end
        names = [(name, (*path, 10, index)) for index, name in enumerate(message.reserved_name)]
        self.unique(names, f"the reserved names of {message.name}")

    def numbers(self, message: pb.DescriptorProto, path: Path, name: str) -> None:
        owners: dict[int, str] = {}
        reserved, extended = Numbers(message.reserved_range), Numbers(message.extension_range)
        names = set(message.reserved_name)
        for index, field in enumerate(message.field):
            place = (*path, 2, index, 3)
            number = field.number
            if not 1 <= number <= MAX_NUMBER:
                raise self.complain(f"{number} is not a field number.", place, f"Use 1 to {MAX_NUMBER}.")
            if number in _RESERVED_BY_PROTOBUF:
                raise self.complain(
                    f"{number} is reserved by Protobuf itself.", place, "Avoid 19000 to 19999."
                )
            if number in owners:
                raise self.complain(
                    f"The number {number} of {field.name!r} is already used by {owners[number]!r} in {name}.",
                    place,
                    f"The next free number is {next_number(message)}.",
                )
            owners[number] = field.name
            if number in reserved:
                raise self.complain(
                    f"The number {number} of {field.name!r} is reserved in {name}.", place, ""
                )
            if field.name in names:
                raise self.complain(f"The name {field.name!r} is reserved in {name}.", place[:-1], "")
            if number in extended:
                raise self.complain(f"The number {number} belongs to the extensions of {name}.", place, "")

    def field(self, field: Field, path: Path) -> None:
        if self.proto3:
            if field.label == Field.LABEL_REQUIRED:
                raise self.complain("proto3 has no required fields.", path, "")
            if field.type == Field.TYPE_GROUP:
                raise self.complain("proto3 has no groups.", path, "Use a nested message.")
            if field.HasField("default_value"):
                raise self.complain("proto3 has no defaults of its own.", path, "")
        if field.options.packed and (field.label != Field.LABEL_REPEATED or field.type in _UNPACKABLE):
            raise self.complain("Only repeated numbers, bools and enums are packed.", path, "")
        if field.extendee and field.label == Field.LABEL_REQUIRED:
            raise self.complain("An extension is never required.", path, "")

    # Enums.

    def enum(self, enum: pb.EnumDescriptorProto, path: Path, name: str) -> None:
        if not enum.value:
            raise self.complain(f"The enum {name} has no values.", path, "")
        if self.proto3 and enum.value[0].number != 0:
            raise self.complain(
                f"The first value of {name} is not 0.", (*path, 2, 0, 2), "proto3 takes it as the default."
            )
        self.unique(((value.name, (*path, 2, index)) for index, value in enumerate(enum.value)), name)
        numbers: dict[int, str] = {}
        reserved = Numbers(enum.reserved_range, closed=True)
        for index, value in enumerate(enum.value):
            place = (*path, 2, index, 2)
            if value.number in numbers and not enum.options.allow_alias:
                raise self.complain(
                    f"{value.name!r} has the number {value.number} of {numbers[value.number]!r}.",
                    place,
                    "Change it, or set the option allow_alias.",
                )
            numbers[value.number] = value.name
            if value.number in reserved:
                raise self.complain(f"The number {value.number} is reserved in {name}.", place, "")
            if value.name in enum.reserved_name:
                raise self.complain(f"The name {value.name!r} is reserved in {name}.", place[:-1], "")


class Numbers:
    """Ranges of numbers that do not overlap, to be asked often. An enum's ranges have their end within."""

    def __init__(self, ranges: Iterable[Range], closed: bool = False) -> None:
        self.ranges = sorted((each.start, each.end + closed) for each in ranges)

    def __contains__(self, number: int) -> bool:
        return self.end_of(number) is not None

    def end_of(self, number: int) -> int | None:
        """Where the range ends that has this number; ``None`` if none has it."""
        at = bisect_right(self.ranges, (number, 2**33)) - 1
        return self.ranges[at][1] if at >= 0 and number < self.ranges[at][1] else None


def next_number(message: pb.DescriptorProto) -> int:
    """The lowest number behind all that are in use."""
    taken = Numbers((*message.reserved_range, *message.extension_range))
    number = max((field.number for field in message.field), default=0) + 1
    while number in _RESERVED_BY_PROTOBUF or number in taken:
        number = taken.end_of(number) or number + 1
    return number
