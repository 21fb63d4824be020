"""Columns to framed messages under one contract version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dragoman.core.errors import EncodeError
from dragoman.pipeline.arrow.formats import column_format
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.rejection import Rejection, error_column


@dataclass(frozen=True, slots=True)
class Encoded:
    """Frames in the order of the rows, null where a row was rejected."""

    frames: Any
    rejections: dict[int, Rejection]

    def errors(self) -> Any:
        return error_column(len(self.frames), self.rejections)


class Encoder:
    def __init__(self, schema: SchemaText, schema_id: int, mapping: Mapping | None = None) -> None:
        self._encoder = column_format(schema.type).encoder(schema, schema_id, mapping or Mapping())
        self._checked: Any = None

    def problems(self, type: Any) -> list[str]:
        """Why rows of a struct type (or of a table's schema) can never be written; empty if they can."""
        if isinstance(type, pa.Schema):
            type = pa.struct(list(type))
        return self._encoder.problems(type)

    def check(self, type: Any) -> None:
        """Raise ``EncodeError`` with all problems at once."""
        problems = self.problems(type)
        if problems:
            raise EncodeError(
                f"The columns do not fit the contract: {'; '.join(problems)}.",
                code="message.encode.columns",
                next="Select, rename or cast the columns so that they match.",
            )

    def encode(self, rows: Any) -> Encoded:
        """``rows`` is a struct array. Raises ``EncodeError`` if its type does not fit at all."""
        if rows.type != self._checked:
            self.check(rows.type)
            self._checked = rows.type
        return Encoded(*self._encoder.encode(rows))
