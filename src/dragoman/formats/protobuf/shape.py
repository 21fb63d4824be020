"""What a field of a descriptor is, in the words of the code that reads and writes it."""

from __future__ import annotations

import keyword

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor


def is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return field.is_repeated and message is not None and message.GetOptions().map_entry


def map_parts(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """The key and the value of a map field."""
    entry = held_by(field)
    return entry.fields_by_name["key"], entry.fields_by_name["value"]


def held_by(field: FieldDescriptor) -> Descriptor:
    """The message type of a field that has one."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} is not a message.")
    return field.message_type


def owner_of(field: FieldDescriptor) -> Descriptor:
    if field.containing_type is None:
        raise TypeError(f"{field.full_name} has no message.")
    return field.containing_type


def oneofs_of(message: Descriptor) -> list[OneofDescriptor]:
    """The oneofs that were written as such, without those that proto3 makes for optional fields."""
    return [oneof for oneof in message.oneofs if not _synthetic(oneof)]


def oneof_of(field: FieldDescriptor) -> OneofDescriptor | None:
    oneof = field.containing_oneof
    return None if oneof is None or _synthetic(oneof) else oneof


def _synthetic(oneof: OneofDescriptor) -> bool:
    return len(oneof.fields) == 1 and oneof.name.lstrip("X") == "_" + oneof.fields[0].name


def attribute(owner: str, name: str) -> str:
    """An expression for ``owner.name``, whatever the name."""
    return f"getattr({owner}, {name!r})" if keyword.iskeyword(name) else f"{owner}.{name}"


def reachable(message: Descriptor) -> dict[str, Descriptor]:
    """All messages that a message may contain, itself included, by full name."""
    found = {message.full_name: message}
    waiting = [message]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return found
