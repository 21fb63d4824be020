"""A codec: two compiled functions, with every failure turned into an error that says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.core.errors import ConstraintViolated, DecodeError, EncodeError, IncompatibleSchema
from dragoman.core.format import Codec
from dragoman.formats.avro.compatibility import Checker
from dragoman.formats.avro.decoder import compile_decoder
from dragoman.formats.avro.encoder import compile_encoder
from dragoman.formats.avro.runtime import Metered, Unfit
from dragoman.formats.avro.schema import AvroSchema
from dragoman.formats.avro.source import Source
from dragoman.schema.types import Type


def compile_codec(writer: AvroSchema, reader: AvroSchema, type: Type | None) -> Codec:
    reasons = Checker().reasons(reader.root, writer.root)
    if reasons:
        raise IncompatibleSchema(
            f"{reader.name or 'The reader'} cannot read what {writer.name or 'the writer'} writes: "
            f"{reasons[0].message}",
            next="Check the two versions with the registry to see all reasons.",
            reader=str(reasons[0].reader),
            writer=str(reasons[0].writer),
        )
    title = writer.name or writer.root.kind
    return Codec(_encode(writer, type, title), _decode(writer, reader, type, title))


def _encode(writer: AvroSchema, type: Type | None, title: str) -> Callable[[Any], bytes]:
    try:
        write, source = compile_encoder(writer.root, type, title)
    except IncompatibleSchema as error:
        # The class can read this schema, and cannot write it: said when somebody tries.
        return _unable(error)

    def encode(value: Any) -> bytes:
        try:
            return write(value)
        except ConstraintViolated:
            raise
        except Exception as error:
            raise _unencodable(source, error, title) from error

    return encode


def _unable(reason: IncompatibleSchema) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        raise EncodeError(
            f"{type(value).__name__} cannot be written with this schema: {reason.what}",
            code="message.encode.class",
            next=reason.next,
            field=reason.where.get("field"),
        )

    return encode


def _unencodable(source: Source, error: Exception, title: str) -> EncodeError:
    about = source.blame(error.__traceback__)
    where = about.path or title
    if isinstance(error, RecursionError):
        what = f"{where} is nested too deeply to be written."
    elif isinstance(error, Unfit):
        what = f"{where} is not of type {about.kind}: {error}."
    elif isinstance(error, KeyError | AttributeError) and about.kind.startswith("record"):
        what = f"{where} lacks the field {error}."
    else:
        what = f"{where} is not of type {about.kind}: {error}."
    return EncodeError(what, field=about.path or None, record=title)


def _decode(writer: AvroSchema, reader: AvroSchema, type: Type | None, title: str) -> Callable[[bytes], Any]:
    read, source, metered = compile_decoder(writer.root, reader.root, type, title)

    def decode(data: bytes) -> Any:
        try:
            value, end = read(data, 0)
            if end == len(data):
                return value
        except ConstraintViolated:
            raise
        except Exception as error:
            raise _undecodable(source, error, title) from error
        raise _wrong_end(end, len(data), title)

    def decode_metered(data: bytes) -> Any:
        return decode(Metered(data))

    return decode_metered if metered else decode


def _undecodable(source: Source, error: Exception, title: str) -> DecodeError:
    about = source.blame(error.__traceback__)
    where = about.path or title
    if isinstance(error, IndexError):
        what = f"The payload ends inside {where}."
        code = "message.decode.truncated"
    elif isinstance(error, RecursionError):
        what = f"{where} is nested too deeply."
        code = "message.decode.depth"
    else:
        what = f"The bytes of {where} are not of type {about.kind}: {error}."
        code = "message.decode"
    return DecodeError(what, code=code, field=about.path or None, record=title)


def _wrong_end(end: int, size: int, title: str) -> DecodeError:
    if end > size:
        return DecodeError(
            f"The payload of {title} has {size} bytes and should go on.",
            code="message.decode.truncated",
            record=title,
        )
    return DecodeError(
        f"{size - end} bytes are left behind {title}.",
        code="message.decode.trailing",
        next="Was it written with another schema?",
        record=title,
    )
