"""Avro: parse, compare and normalise schemas, and compile codecs for classes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import IncompatibleSchema, InvalidSchema
from dragoman.core.format import Codec, ParsedSchema, Policy
from dragoman.formats.avro.codec import compile_codec
from dragoman.formats.avro.compatibility import incompatibilities
from dragoman.formats.avro.counterexample import counterexample
from dragoman.formats.avro.description import describe_schema
from dragoman.formats.avro.native import BUILT, IN_USE
from dragoman.formats.avro.resolution import Resolution
from dragoman.formats.avro.schema import AvroSchema, read
from dragoman.formats.avro.text import text_of
from dragoman.schema.building import class_of
from dragoman.schema.records import type_of
from dragoman.schema.types import RecordType, Type

__all__ = ["AvroFormat", "AvroSchema"]

_compiling = threading.Lock()


class AvroFormat:
    """The format ``AVRO``. Codecs are compiled once per writer, reader and class.

    ``native`` tells whether they are native. Unless given, they are where the extension was built.
    """

    schema_type = "AVRO"

    def __init__(self, native: bool | None = None) -> None:
        self.native = IN_USE if native is None else native and BUILT

    def parse(self, text: str, references: Mapping[str, ParsedSchema] | None = None) -> AvroSchema:
        return read(text, references)

    def incompatibilities(
        self, reader: ParsedSchema, writer: ParsedSchema, policy: Policy = Policy.STRICT
    ) -> Sequence[Incompatibility]:
        return incompatibilities(_avro(reader).root, _avro(writer).root, policy, counterexample)

    def codec(self, writer: ParsedSchema, reader: ParsedSchema | None = None, cls: Any = None) -> Codec:
        source, target = _avro(writer), _avro(reader or writer)
        with _compiling:
            codec = source.codecs.get((target, cls, self.native))
            if codec is None:
                type = type_of(cls) if cls is not None else None
                codec = _compiled(source, target, type, self.native)
                source.codecs[target, cls, self.native] = codec
            return codec

    def resolution(self, writer: ParsedSchema, reader: ParsedSchema) -> Resolution:
        """How the writer's types lead to the reader's, as the codecs see it. Not part of the format port."""
        return Resolution(_avro(writer).root, _avro(reader).root)

    def schema_of(self, cls: Any) -> str:
        described = type_of(cls)
        kept = described.texts if isinstance(described, RecordType) else {}
        if self.schema_type not in kept:
            text = text_of(described)
            read(text)
            kept[self.schema_type] = text
        return kept[self.schema_type]

    def record_class(self, schema: ParsedSchema) -> type:
        return class_of(describe_schema(_avro(schema)))


def _compiled(writer: AvroSchema, reader: AvroSchema, type: Type | None, native: bool) -> Codec:
    try:
        codec = compile_codec(writer, reader, type)
    except RecursionError:
        raise IncompatibleSchema("The defaults are nested too deep for a codec.") from None
    if not native:
        return codec
    from dragoman.formats.avro.native.codec import native_codec

    return native_codec(codec, writer.root, reader.root, type)


def _avro(schema: ParsedSchema) -> AvroSchema:
    if isinstance(schema, AvroSchema):
        return schema
    raise InvalidSchema(
        f"{type(schema).__name__} is not an Avro schema.", next="Parse it with the Avro format."
    )
