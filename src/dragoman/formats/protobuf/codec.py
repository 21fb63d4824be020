"""Compiled encoding and decoding: message indexes, then the message, by Protobuf's own C implementation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError as ProtobufDecodeError

from dragoman.core.errors import DecodeError, EncodeError, IncompatibleSchema, MessageError
from dragoman.core.format import Codec
from dragoman.formats.protobuf.compatibility import relative, unreadable
from dragoman.formats.protobuf.diagnosis import faulty_attribute, faulty_field
from dragoman.formats.protobuf.indexes import FIRST, Indexes, decode_indexes, encode_indexes
from dragoman.formats.protobuf.plain import compile_plain_reader, compile_plain_writer
from dragoman.formats.protobuf.records import compile_record_reader, compile_record_writer
from dragoman.formats.protobuf.schema import ProtobufSchema
from dragoman.formats.protobuf.shape import reachable
from dragoman.schema.compiling import unable
from dragoman.schema.records import describe
from dragoman.schema.types import RecordType


def compile_codec(writer: ProtobufSchema, reader: ProtobufSchema, cls: type | None) -> Codec:
    """Raises ``IncompatibleSchema`` if the writer's message cannot be read, or does not fit the class."""
    record = describe(cls) if cls is not None else None
    written = root_of(writer, record)
    read = written if reader is writer else counterpart(writer, written, reader, record)
    if read is None:
        raise IncompatibleSchema(
            f"The reader's schema has no message for {writer.messages[written].full_name}.",
            next="Use a schema of the same contract.",
        )
    decoder = _Decoder(writer, reader, record)
    decoder.target(written)
    return Codec(_encoder(writer, written, record), decoder.decode)


def root_of(schema: ProtobufSchema, record: RecordType | None) -> Indexes:
    """The message that is written: the one the class is called after, else the first."""
    if not schema.messages:
        raise IncompatibleSchema("The schema has no message.", next="Define one.")
    if record is not None:
        for wanted in (record.names.full, record.names.name):
            for indexes, message in schema.messages.items():
                if wanted in (message.full_name, message.name):
                    return indexes
    return FIRST if FIRST in schema.messages else next(iter(schema.messages))


def counterpart(
    writer: ProtobufSchema, written: Indexes, reader: ProtobufSchema, record: RecordType | None
) -> Indexes | None:
    """The reader's message for one of the writer's: of the same name, or first where that was first."""
    message = writer.messages[written]
    name = relative(writer, message)
    for indexes, other in reader.messages.items():
        if relative(reader, other) == name:
            return indexes
    for indexes, other in reader.messages.items():
        if other.name == message.name:
            return indexes
    if written != FIRST or not reader.messages:
        return None
    return root_of(reader, record)


def _encoder(schema: ProtobufSchema, indexes: Indexes, record: RecordType | None) -> Callable[[Any], bytes]:
    message = schema.messages[indexes]
    prefix = encode_indexes(indexes)
    try:
        build = compile_plain_writer(message) if record is None else compile_record_writer(message, record)
    except IncompatibleSchema as error:
        return unable(error)

    def encode(value: Any) -> bytes:
        try:
            made: bytes = build(value).SerializeToString(deterministic=True)
        except MessageError:
            raise
        except RecursionError:
            raise EncodeError(f"The value is nested too deep for {message.full_name}.") from None
        except Exception as error:
            what = f"The value does not fit {message.full_name}: {_why(error)}"
            field = (
                faulty_field(message, value) if record is None else faulty_attribute(message, record, value)
            )
            raise EncodeError(what, field=field) from error
        return prefix + made

    return encode


def _why(error: Exception) -> str:
    """What Protobuf says, without the value: that has no place in logs."""
    return re.sub(r"(out of range|unknown enum label)\b.*", r"\1", str(error), flags=re.DOTALL)


class _Decoder:
    """Decoding for each message of the writer's file. Nearly all payloads hold the same one."""

    def __init__(self, writer: ProtobufSchema, reader: ProtobufSchema, record: RecordType | None) -> None:
        self.writer = writer
        self.reader = reader
        self.record = record
        self.targets: dict[Indexes, Callable[[bytes], Any]] = {}

    def decode(self, payload: bytes) -> Any:
        if payload[:1] == b"\x00":
            indexes, start = FIRST, 1
        else:
            indexes, start = decode_indexes(payload)
        read = self.targets.get(indexes)
        if read is None:
            read = self.other(indexes)
        return read(payload[start:])

    def other(self, indexes: Indexes) -> Callable[[bytes], Any]:
        """Compiled when such a payload first comes."""
        if indexes not in self.writer.messages:
            raise DecodeError(
                f"The payload names the message {list(indexes)}, which its schema does not have.",
                next="Was it written with another schema?",
            )
        if self.record is not None and indexes != root_of(self.writer, self.record):
            name = self.writer.messages[indexes].full_name
            raise DecodeError(f"The payload holds a {name}, not a {self.record.names.full}.")
        try:
            return self.target(indexes)
        except IncompatibleSchema as error:
            raise DecodeError(error.what, next=error.next) from error

    def target(self, indexes: Indexes) -> Callable[[bytes], Any]:
        written = self.writer.messages[indexes]
        message = written
        if self.reader is not self.writer:
            message = self._counterpart(indexes, written)
        record = self.record
        read = compile_plain_reader(message) if record is None else compile_record_reader(message, record)
        self.targets[indexes] = made = _reading(message, read)
        return made

    def _counterpart(self, indexes: Indexes, written: Descriptor) -> Descriptor:
        found = counterpart(self.writer, indexes, self.reader, self.record)
        if found is None:
            raise IncompatibleSchema(f"The reader's schema has no message for {written.full_name}.")
        message = self.reader.messages[found]
        reasons = unreadable(self.reader, message, self.writer, written)
        if reasons:
            raise IncompatibleSchema(
                f"{written.full_name} cannot be read as the reader's schema has it: {reasons[0].message}",
                next="Read it with a compatible version.",
                rule=reasons[0].rule,
            )
        return message


def _reading(message: Descriptor, read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    cls = message_factory.GetMessageClass(message)
    parse = cls.FromString
    requires = any(field.is_required for each in reachable(message).values() for field in each.fields)

    def decode(data: bytes) -> Any:
        try:
            parsed = parse(data)
            if requires and not parsed.IsInitialized():
                raise DecodeError(f"The payload lacks a field that {message.full_name} requires.")
            return read(parsed)
        except MessageError:
            raise
        except ProtobufDecodeError as error:
            raise DecodeError(f"The payload is not a {message.full_name}: {error}") from error
        except RecursionError:
            raise DecodeError(f"The payload is nested too deep for {message.full_name}.") from None
        except Exception as error:
            raise DecodeError(f"The payload does not fit {message.full_name}: {error}") from error

    return decode
