"""Thrift as one of the schema formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import InvalidSchema
from dragoman.core.format import Codec, ParsedSchema, Policy
from dragoman.formats.thrift.classes import record_class
from dragoman.formats.thrift.codec import compile_codec
from dragoman.formats.thrift.compatibility import incompatibilities
from dragoman.formats.thrift.description import schema_text
from dragoman.formats.thrift.schema import ThriftSchema
from dragoman.schema.records import describe


class ThriftFormat:
    """Thrift documents; their payloads hold the root struct, in the compact or the binary protocol.

    The root is the struct, union or exception marked ``(dragoman.root = "true")``, else the last one. The
    protocol is compact, unless the root says ``(dragoman.protocol = "binary")``.
    """

    schema_type = "THRIFT"

    def parse(self, text: str, references: Mapping[str, ParsedSchema] | None = None) -> ThriftSchema:
        """``references`` are named by the path under which the text includes them."""
        if not text.strip():
            raise InvalidSchema("The text is empty.", next="Define a struct.", line=1, column=1)
        found = {name: of_this_format(each) for name, each in (references or {}).items()}
        return ThriftSchema.from_text(text, found)

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


def of_this_format(schema: ParsedSchema) -> ThriftSchema:
    if not isinstance(schema, ThriftSchema):
        raise InvalidSchema(f"{type(schema).__name__} is not a Thrift schema.")
    return schema
