"""The Avro column format."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dragoman.core.loading import FORMATS, load
from dragoman.pipeline.arrow.avro.decoder import AvroColumnDecoder
from dragoman.pipeline.arrow.avro.encoder import AvroColumnEncoder
from dragoman.pipeline.arrow.avro.match import Alike, Match, Wrapped
from dragoman.pipeline.arrow.avro.target import arrow_type, target_of, whole_target
from dragoman.pipeline.arrow.avro.tree import WHOLE, Record, Tree, parse, wrapped
from dragoman.pipeline.arrow.codec_rows import parsed
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import ColumnDecoder, ColumnEncoder, SchemaText


class AvroColumns:
    schema_type = "AVRO"

    def struct_type(self, reader: SchemaText, mapping: Mapping) -> Any:
        return arrow_type(target_of(tree_of(reader), mapping), mapping)

    def meaning(self, reader: SchemaText) -> object:
        """The tree has all that reading needs: the fingerprint knows no aliases, defaults and constraints.

        As text, since to Python 0, 0.0 and false are equal, and to a union they are not.
        """
        tree = tree_of(reader)
        return repr(tree.root), repr(sorted(tree.names.items()))

    def decoder(self, writer: SchemaText, reader: SchemaText | None, mapping: Mapping) -> ColumnDecoder:
        written = tree_of(writer)
        if reader is None:
            target = whole_target(written, mapping)
            return AvroColumnDecoder(wrapped(written), target, Alike(target), mapping)
        target = target_of(tree_of(reader), mapping)
        return AvroColumnDecoder(written, target, _match(writer, reader, target), mapping)

    def encoder(self, writer: SchemaText, schema_id: int, mapping: Mapping) -> ColumnEncoder:
        return AvroColumnEncoder(tree_of(writer), schema_id, mapping)


def _match(writer: SchemaText, reader: SchemaText, target: Record) -> Match:
    """The format's own answers, so that columns and codecs agree. Raises ``InvalidSchema``."""
    found: Match = load(FORMATS, AvroColumns.schema_type)().resolution(parsed(writer), parsed(reader))
    return Wrapped(target, found) if target.name == WHOLE else found


@lru_cache(maxsize=1024)
def tree_of(schema: SchemaText) -> Tree:
    return parse(schema.text, _texts(schema))


def _texts(schema: SchemaText) -> list[str]:
    """The texts referred to, those of theirs first."""
    return [text for _, each in schema.references for text in [*_texts(each), each.text]]
