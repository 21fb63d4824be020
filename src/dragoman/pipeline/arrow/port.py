"""What a schema format gives the pipeline: plans from payloads to columns, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.rejection import Rejection
from dragoman.pipeline.arrow.variant import VARIANT_TYPE


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema with the texts it refers to, by the names used in it. Travels to workers, keys caches."""

    type: str
    text: str
    references: tuple[tuple[str, SchemaText], ...] = ()


class ColumnDecoder(Protocol):
    """Messages of one writer's schema to columns of one reader's. Built once, called per batch."""

    def decode(self, frames: Any) -> tuple[Any, dict[int, Rejection]]:
        """A struct array with a row for each frame, and the rejections by row.

        ``frames`` is a binary array without nulls; every frame has the five header bytes of this schema.
        What a rejected row holds is undefined: the caller masks it.
        """


class ColumnEncoder(Protocol):
    """Columns to framed messages of one schema. Built once, called per batch."""

    def problems(self, type: Any) -> list[str]:
        """Why rows of this struct type cannot be written, whatever they hold. Asked before ``encode``."""

    def encode(self, rows: Any) -> tuple[Any, dict[int, Rejection]]:
        """A binary array with a frame for each row, null where the row was rejected."""


class ColumnFormat(Protocol):
    """One schema language as columns. Stateless."""

    schema_type: str

    def struct_type(self, reader: SchemaText, mapping: Mapping) -> Any:
        """The Arrow struct type of the reader's schema, all fields nullable.

        Raises ``InvalidSchema``, or ``ConfigurationError`` for a type that ``mapping`` refuses.
        """

    def meaning(self, reader: SchemaText) -> object:
        """Equal for readers that give every message the same values, or refuse it alike.

        That takes more than the same types: what fields were called before, defaults and constraints count.
        Raises ``InvalidSchema``.
        """

    def decoder(self, writer: SchemaText, reader: SchemaText | None, mapping: Mapping) -> ColumnDecoder:
        """Raises ``IncompatibleSchema`` if no message of the writer can be read by the reader.

        Without a reader the message is kept whole, as the one column of ``whole_type``.
        """

    def encoder(self, writer: SchemaText, schema_id: int, mapping: Mapping) -> ColumnEncoder: ...


def whole_type(mapping: Mapping) -> Any:
    """The struct type of messages that are kept whole."""
    return pa.struct([("value", VARIANT_TYPE if mapping.whole == "variant" else pa.string())])
