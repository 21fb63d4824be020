"""A codec: two compiled functions, with every failure turned into an error that says where."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.core.errors import (
    ConstraintViolated,
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    MessageError,
)
from dragoman.core.format import Codec
from dragoman.formats.avro.compatibility import Checker
from dragoman.formats.avro.decoder import compile_decoder
from dragoman.formats.avro.encoder import compile_encoder
from dragoman.formats.avro.runtime import Broken, Metered, Refused, Stray
from dragoman.formats.avro.schema import AvroSchema
from dragoman.formats.avro.source import Source
from dragoman.schema.compiling import unable
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
    source = Source(title)
    source.scope["failed"] = partial(_unencodable, source, title)
    try:
        return compile_encoder(writer.root, type, source)
    except IncompatibleSchema as error:
        return unable(error)


def _unencodable(source: Source, title: str, error: Exception) -> MessageError:
    about = source.blame(error.__traceback__)
    where = about.path or title
    if isinstance(error, Broken | Refused):
        return _violated(error, about.path, title)
    if isinstance(error, Stray):
        return EncodeError(
            f"{where} has no field {error.name!r}.",
            next=f"Its fields are: {', '.join(error.known)}.",
            field=f"{about.path}.{error.name}" if about.path else error.name,
            record=title,
        )
    if isinstance(error, RecursionError):
        what = f"{where} is nested too deeply to be written."
    elif isinstance(error, KeyError) and error.args[0] == where.rpartition(".")[2]:
        what = f"{where} is missing."
    elif isinstance(error, KeyError):
        what = f"{where} is not a symbol of {about.kind}."
    else:
        what = f"{where} is not of type {about.kind}{_why(error)}."
    return EncodeError(what, field=about.path or None, record=title)


def _why(error: Exception) -> str:
    """Python tells of the operator that failed; of interest is the class of the value."""
    if isinstance(error, TypeError | AttributeError):
        given = re.search(r"'([A-Za-z_][\w.]*)'", str(error))
        if given is not None:
            return f", it is {'None' if given[1] == 'NoneType' else given[1]}"
    return f": {error}"


def _violated(error: Broken | Refused, path: str, title: str) -> ConstraintViolated:
    if isinstance(error, Refused):
        return ConstraintViolated(
            f"{error}.", code="message.constraint.class", field=path or None, record=title
        )
    return ConstraintViolated(f"{path or title} {error}.", field=path or None, record=title)


def _decode(writer: AvroSchema, reader: AvroSchema, type: Type | None, title: str) -> Callable[[bytes], Any]:
    source = Source(title)
    source.scope["failed"] = partial(_undecodable, source, title)
    source.scope["wrong_end"] = partial(_wrong_end, title)
    decode, metered = compile_decoder(writer.root, reader.root, type, source)
    if not metered:
        return decode

    def decode_metered(data: bytes) -> Any:
        return decode(Metered(data))

    return decode_metered


def _undecodable(source: Source, title: str, error: Exception) -> MessageError:
    about = source.blame(error.__traceback__)
    where = about.path or title
    code = "message.decode"
    if isinstance(error, Broken | Refused):
        return _violated(error, about.path, title)
    if isinstance(error, IndexError):
        what = f"The payload ends inside {where}."
        code = "message.decode.truncated"
    elif isinstance(error, RecursionError):
        what = f"{where} is nested too deeply."
        code = "message.decode.depth"
    elif isinstance(error, KeyError):
        what = f"The bytes of {where} name no symbol of {about.kind} that the reader knows."
    else:
        what = f"The bytes of {where} are not of type {about.kind}: {error}."
    return DecodeError(what, code=code, field=about.path or None, record=title)


def _wrong_end(title: str, end: int, size: int) -> DecodeError:
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
