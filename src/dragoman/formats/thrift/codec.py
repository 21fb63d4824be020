"""Compiled encoding and decoding of the root struct, in the protocol that the writer's schema names."""

from __future__ import annotations

import struct as structs
from typing import Any

from dragoman.core.errors import DecodeError, EncodeError, IncompatibleSchema, MessageError
from dragoman.core.format import Codec, Policy
from dragoman.formats.thrift.compatibility import unreadable
from dragoman.formats.thrift.diagnosis import faulty_field
from dragoman.formats.thrift.emission import emission
from dragoman.formats.thrift.model import Struct
from dragoman.formats.thrift.reading import compile_reader
from dragoman.formats.thrift.schema import ThriftSchema
from dragoman.formats.thrift.writing import compile_writer
from dragoman.schema.records import describe

_READ_ERRORS = (
    ValueError,
    TypeError,
    OverflowError,
    ArithmeticError,
    AttributeError,
    LookupError,
    structs.error,
)
_WRITE_ERRORS = _READ_ERRORS


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
    write = compile_writer(written, record, protocol)
    load = compile_reader(read, record, protocol)

    def encode(value: Any) -> bytes:
        out = bytearray()
        try:
            write(out, value)
        except MessageError:
            raise
        except _WRITE_ERRORS as error:
            field = faulty_field(written, value, protocol)
            raise EncodeError(f"The value does not fit {written.name}: {error}", field=field) from error
        except RecursionError:
            raise EncodeError(f"The value is nested too deep for {written.name}.") from None
        return bytes(out)

    def decode(payload: bytes) -> Any:
        data = bytes(payload)
        try:
            value, end = load(data, 0, 0)
        except MessageError:
            raise
        except (IndexError, structs.error) as error:
            raise DecodeError(f"The payload ends before its {read.name} does.") from error
        except _READ_ERRORS as error:
            raise DecodeError(f"The payload does not fit {read.name}: {error}") from error
        except RecursionError:
            raise DecodeError(f"The payload is nested too deep for {read.name}.") from None
        if end != len(data):
            raise DecodeError(f"{len(data) - end} bytes follow the {read.name} in the payload.")
        return value

    return Codec(encode, decode)


def _root(schema: ThriftSchema) -> Struct:
    if schema.root is None:
        raise IncompatibleSchema("The schema has no struct, so it has no messages.", next="Define one.")
    return schema.root
