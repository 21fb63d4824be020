"""Protobuf as one of the schema formats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import InvalidSchema
from dragoman.core.format import Codec, ParsedSchema, Policy
from dragoman.formats.protobuf.classes import record_class
from dragoman.formats.protobuf.codec import compile_codec
from dragoman.formats.protobuf.compatibility import incompatibilities
from dragoman.formats.protobuf.description import schema_text
from dragoman.formats.protobuf.schema import ProtobufSchema
from dragoman.schema.records import describe

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


class ProtobufFormat:
    """.proto files of proto2, proto3 and editions, as text or as ``FileDescriptorProto`` in base64."""

    schema_type = "PROTOBUF"

    def parse(self, text: str, references: Mapping[str, ParsedSchema] | None = None) -> ProtobufSchema:
        """``references`` are named by the path under which the text imports them."""
        found = {name: of_this_format(each) for name, each in (references or {}).items()}
        if not text.strip():
            raise InvalidSchema("The text is empty.", next="Define a message.", line=1, column=1)
        # Every .proto text has a character that base64 lacks.
        if _BASE64.fullmatch(text):
            return ProtobufSchema.from_base64(text, found)
        return ProtobufSchema.from_text(text, found)

    def incompatibilities(
        self, reader: ParsedSchema, writer: ParsedSchema, policy: Policy = Policy.STRICT
    ) -> Sequence[Incompatibility]:
        return incompatibilities(of_this_format(reader), of_this_format(writer), policy)

    def codec(
        self, writer: ParsedSchema, reader: ParsedSchema | None = None, cls: type | None = None
    ) -> Codec:
        wrote = of_this_format(writer)
        return compile_codec(wrote, wrote if reader is None else of_this_format(reader), cls)

    def schema_of(self, cls: type) -> str:
        kept = describe(cls).texts
        if self.schema_type not in kept:
            kept[self.schema_type] = schema_text(cls)
        return kept[self.schema_type]

    def record_class(self, schema: ParsedSchema) -> type:
        return record_class(of_this_format(schema))


def of_this_format(schema: ParsedSchema) -> ProtobufSchema:
    if not isinstance(schema, ProtobufSchema):
        raise InvalidSchema(f"{type(schema).__name__} is not a Protobuf schema.")
    return schema
