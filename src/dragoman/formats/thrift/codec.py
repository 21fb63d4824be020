"""Compiled encoding and decoding of the root struct, in the protocol that the writer's schema names."""

from __future__ import annotations

import struct as structs
from collections.abc import Callable
from typing import Any

from dragoman.core.errors import DecodeError, EncodeError, IncompatibleSchema, MessageError
from dragoman.core.format import Codec, Policy
from dragoman.formats.thrift.compatibility import unreadable
from dragoman.formats.thrift.diagnosis import faulty_attribute, faulty_field
from dragoman.formats.thrift.emission import Emission, emission
from dragoman.formats.thrift.model import Struct
from dragoman.formats.thrift.reading import compile_reader
from dragoman.formats.thrift.schema import ThriftSchema
from dragoman.formats.thrift.writing import compile_writer
from dragoman.schema.compiling import unable
from dragoman.schema.records import describe
from dragoman.schema.types import RecordType


def compile_codec(writer: ThriftSchema, reader: ThriftSchema, cls: type | None) -> Codec:
    """Raises ``IncompatibleSchema`` if the writer's root cannot be read, or does not fit the class."""
    written, read = _root(writer), _root(reader)
    if reader is not writer:
        reasons = unreadable(read, written, Policy.LENIENT)
        if reasons:
            raise IncompatibleSchema(
                f"{written.name} cannot be read as the reader's schema has it: {reasons[0].message}",
                next="Read it with a compatible version.",
                rule=reasons[0].rule,
            )
    record = describe(cls) if cls is not None else None
    protocol = emission(writer.protocol)
    return Codec(_encoder(written, record, protocol), _decoder(read, record, protocol))


def _encoder(written: Struct, record: RecordType | None, protocol: Emission) -> Callable[[Any], bytes]:
    try:
        write = compile_writer(written, record, protocol)
    except IncompatibleSchema as error:
        return unable(error)

    def encode(value: Any) -> bytes:
        out = bytearray()
        try:
            write(out, value)
        except MessageError:
            raise
        except RecursionError:
            raise EncodeError(f"The value is nested too deep for {written.name}.") from None
        except Exception as error:
            field = (
                faulty_field(written, value, protocol)
                if record is None
                else faulty_attribute(written, record, value, protocol)
            )
            raise EncodeError(f"The value does not fit {written.name}: {error}", field=field) from error
        return bytes(out)

    return encode


def _decoder(read: Struct, record: RecordType | None, protocol: Emission) -> Callable[[bytes], Any]:
    load = compile_reader(read, record, protocol)

    def decode(payload: bytes) -> Any:
        data = bytes(payload)
        try:
            value, end = load(data, 0, 0)
        except MessageError:
            raise
        except (IndexError, structs.error) as error:
            raise DecodeError(f"The payload ends before its {read.name} does.") from error
        except RecursionError:
            raise DecodeError(f"The payload is nested too deep for {read.name}.") from None
        except Exception as error:
            raise DecodeError(f"The payload does not fit {read.name}: {error}") from error
        if end != len(data):
            raise DecodeError(f"{len(data) - end} bytes follow the {read.name} in the payload.")
        return value

    return decode


def _root(schema: ThriftSchema) -> Struct:
    if schema.root is None:
        raise IncompatibleSchema("The schema has no struct, so it has no messages.", next="Define one.")
    return schema.root
