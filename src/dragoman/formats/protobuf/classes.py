"""Record classes of a Protobuf schema. What they describe becomes the same file again, as far as it can."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.markers import Kind, Oneof, Tag
from dragoman.formats.protobuf.parser import SCALARS
from dragoman.formats.protobuf.schema import ProtobufSchema
from dragoman.formats.protobuf.shape import held_by, is_map, map_parts, oneof_of
from dragoman.formats.protobuf.values import SPECIAL, read_wrapper
from dragoman.schema.making import Attribute, annotate, attribute_name, make_enum, make_record
from dragoman.schema.markers import Float, Int, Name, decimal, timestamp
from dragoman.schema.types import MISSING

F = FieldDescriptor
_KINDS: dict[int, str] = {int(number): name for name, number in SCALARS.items()}
_PLAIN: dict[int, Any] = {
    F.TYPE_INT32: Int,
    F.TYPE_INT64: int,
    F.TYPE_DOUBLE: float,
    F.TYPE_FLOAT: Float,
    F.TYPE_BOOL: bool,
    F.TYPE_STRING: str,
    F.TYPE_BYTES: bytes,
}
_VALUES: dict[str, Any] = {
    "google.protobuf.Timestamp": datetime,
    "google.protobuf.Duration": timedelta,
    "google.type.Date": date,
    "google.type.TimeOfDay": time,
    "google.type.DateTime": Annotated[datetime, timestamp(local=True)],
    "confluent.type.Decimal": Annotated[Decimal, decimal(38, 18)],
}


def record_class(schema: ProtobufSchema) -> type:
    """The class of the first message; others hang on its annotations. Raises ``InvalidSchema``."""
    if not schema.messages:
        raise InvalidSchema("The schema has no message.", next="Define one.")
    return _Classes().message(next(iter(schema.messages.values())))


class _Classes:
    def __init__(self) -> None:
        self.messages: dict[str, type] = {}
        self.enums: dict[str, type[Enum]] = {}

    def message(self, root: Descriptor) -> type:
        made = self.declared(root)
        waiting = [root]
        while waiting:
            message = waiting.pop()
            known = set(self.messages)
            annotations = {attribute_name(field.name): self.field(field) for field in message.fields}
            annotate(self.messages[message.full_name], annotations)
            waiting += (each for each in _inner(message) if each.full_name in set(self.messages) - known)
        return made

    def declared(self, message: Descriptor) -> type:
        """The class of a message, without annotations when it is new."""
        if message.full_name not in self.messages:
            attributes = [Attribute(attribute_name(each.name), self.default(each)) for each in message.fields]
            made = make_record(message.name, _namespace(message), attributes)
            self.messages[message.full_name] = made
        return self.messages[message.full_name]

    def enum(self, enum: EnumDescriptor) -> type[Enum]:
        if enum.full_name not in self.enums:
            members = [(value.name, value.number) for value in enum.values]
            self.enums[enum.full_name] = make_enum(enum.name, _namespace(enum), members)
        return self.enums[enum.full_name]

    def default(self, field: FieldDescriptor) -> Any:
        if field.is_required:
            return MISSING
        if is_map(field):
            return {}
        if field.is_repeated:
            return []
        if field.has_presence and not field.has_default_value:
            return None
        if field.enum_type is not None:
            return self.enum(field.enum_type)(field.default_value)
        return field.default_value

    def field(self, field: FieldDescriptor) -> Any:
        """The annotation of a field, with its number and all that its Python type does not say."""
        marks: list[Any] = [Tag(field.number)]
        if attribute_name(field.name) != field.name:
            marks.append(Name(field.name))
        oneof = oneof_of(field)
        if oneof is not None:
            marks.append(Oneof(oneof.name))
        return Annotated[(self.type(field), *marks)]

    def type(self, field: FieldDescriptor) -> Any:
        if is_map(field):
            key, value = map_parts(field)
            if key.type != F.TYPE_STRING:
                raise InvalidSchema(
                    f"The map {field.full_name} has other keys than strings, which no record has.",
                    field=field.name,
                )
            return dict[str, self.single(value)]  # type: ignore[misc]
        single = self.single(field)
        if field.is_repeated:
            return list[single]  # type: ignore[valid-type]
        if field.has_presence and not field.is_required and not field.has_default_value:
            return single | None
        return single

    def single(self, field: FieldDescriptor) -> Any:
        if field.enum_type is not None:
            return self.enum(field.enum_type)
        if field.message_type is None:
            return _PLAIN.get(field.type) or Annotated[int, Kind(_KINDS[field.type])]
        name = field.message_type.full_name
        special = SPECIAL.get(name)
        if special is not None and special.read is read_wrapper:
            return self.single(field.message_type.fields_by_name["value"])
        return _VALUES.get(name) or self.declared(field.message_type)


def _inner(message: Descriptor) -> list[Descriptor]:
    """The messages that the fields hold, each a candidate for a class of its own."""
    found = [map_parts(field)[1] if is_map(field) else field for field in message.fields]
    return [held_by(field) for field in found if field.message_type is not None]


def _namespace(part: Descriptor | EnumDescriptor) -> str:
    return part.full_name.rpartition(".")[0]
