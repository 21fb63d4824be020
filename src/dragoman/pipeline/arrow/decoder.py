"""A column of frames, by any writers' schemas, to the columns of one reader's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.core.errors import ConfigurationError, NotFound, SchemaError, UnknownSchema
from dragoman.pipeline.arrow.arrays import struct, valid_mask
from dragoman.pipeline.arrow.formats import column_format
from dragoman.pipeline.arrow.frames import Headers, headers_of
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import ColumnDecoder, SchemaText, whole_type
from dragoman.pipeline.arrow.rejection import Reason, Rejection, error_column, good_rows

Lookup = Callable[[int], SchemaText]
"""From a schema id to its schema. Raises ``NotFound``, ``UnknownSchema`` or ``KeyError``."""

_UNREADABLE = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError)
"""What Python and Arrow raise for a schema that is beyond them, such as one of thousands of levels."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows in the order of the frames. ``values`` is null where a row was rejected, or had no payload."""

    values: Any
    schema_ids: Any
    rejections: dict[int, Rejection]

    def errors(self) -> Any:
        """A column of ``ERROR_TYPE``, null where nothing is wrong."""
        return error_column(len(self.values), self.rejections)

    def reject(self, rejections: dict[int, Rejection]) -> Decoded:
        """Further rows rejected; what was wrong with a row before stays its reason."""
        if not rejections:
            return self
        together = {**rejections, **self.rejections}
        return Decoded(masked(self.values, good_rows(len(self.values), together)), self.schema_ids, together)

    def columns(self) -> list[Any]:
        """The fields of ``values``, each null where the whole row is."""
        if not self.values.null_count:
            return [self.values.field(i) for i in range(self.values.type.num_fields)]
        found: list[Any] = self.values.flatten()
        return found


class Decoder:
    """Plans are compiled once per schema id and kept. Used from one thread at a time."""

    def __init__(self, reader: SchemaText | None, lookup: Lookup, mapping: Mapping | None = None) -> None:
        """Without a reader every message is kept whole, as its writer wrote it."""
        self.reader = reader
        self.mapping = mapping or Mapping()
        self.type = struct_type(reader, self.mapping)
        self._lookup = lookup
        self._plans: dict[int, ColumnDecoder | Rejection] = {}

    def plan(self, schema_id: int) -> ColumnDecoder | Rejection:
        """How messages of a schema are read, or why none can be. Unknown ids are asked for again."""
        plan = self._plans.get(schema_id)
        if plan is None:
            plan = self._compile(schema_id)
            if not isinstance(plan, Rejection) or plan.code != Reason.UNKNOWN_SCHEMA:
                self._plans[schema_id] = plan
        return plan

    def _compile(self, schema_id: int) -> ColumnDecoder | Rejection:
        try:
            writer = self._lookup(schema_id)
        except (NotFound, UnknownSchema, KeyError):
            return Rejection(Reason.UNKNOWN_SCHEMA, f"The registry has no schema with the id {schema_id}.")
        if self.reader is not None and writer.type != self.reader.type:
            reason = f"The message has a schema of type {writer.type}, the reader's is {self.reader.type}."
            return Rejection(Reason.INCOMPATIBLE, reason)
        try:
            return column_format(writer.type).decoder(writer, self.reader, self.mapping)
        except (SchemaError, ConfigurationError) as error:
            place = str(error.where.get("path", ""))
            return Rejection(Reason.INCOMPATIBLE, f"Schema {schema_id}: {error.what}", place)
        except _UNREADABLE as error:
            # The messages are kept, and can be read again when the cause is mended.
            reason = f"Schema {schema_id} cannot be read as columns: {type(error).__name__}."
            return Rejection(Reason.INCOMPATIBLE, reason)

    def decode(self, frames: Any) -> Decoded:
        """``frames`` is a binary array; a null in it is a message without payload, and no error."""
        headers = headers_of(frames)
        count = len(frames)
        ids = pa.array(headers.ids, pa.int32(), mask=~headers.framed)
        found = np.unique(headers.ids[headers.framed])
        if len(found) == 1:
            values, rejections = self._decode_one(int(found[0]), frames, headers)
        else:
            values, rejections = self._decode_mixed(frames, headers, found)
        keep = good_rows(count, rejections) & ~headers.missing
        return Decoded(masked(values, keep), ids, rejections)

    def _decode_same(self, schema_id: int, frames: Any) -> tuple[Any, dict[int, Rejection]]:
        plan = self.plan(schema_id)
        if isinstance(plan, Rejection):
            return pa.nulls(len(frames), self.type), dict.fromkeys(range(len(frames)), plan)
        return plan.decode(frames)

    def _decode_one(self, schema_id: int, frames: Any, headers: Headers) -> tuple[Any, dict[int, Rejection]]:
        """Frames of one schema. What stands between them is read as if it were one of them, and dropped."""
        if headers.framed.all():
            return self._decode_same(schema_id, frames)
        some = frames[int(np.argmax(headers.framed))]
        values, found = self._decode_same(schema_id, pc.if_else(pa.array(headers.framed), frames, some))
        rejections = {row: rejection for row, rejection in found.items() if headers.framed[row]}
        return values, rejections | _unframed(headers)

    def _decode_mixed(self, frames: Any, headers: Headers, ids: Any) -> tuple[Any, dict[int, Rejection]]:
        """Each schema's rows together, then all back in order."""
        rejections = _unframed(headers)
        parts: list[Any] = []
        place: Any = np.full(len(frames), -1, dtype=np.int64)
        done = 0
        for schema_id in ids.tolist():
            rows = np.flatnonzero(headers.framed & (headers.ids == schema_id))
            values, found = self._decode_same(schema_id, frames.take(pa.array(rows)))
            rejections |= {int(rows[row]): rejection for row, rejection in found.items()}
            parts.append(values)
            place[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        if not parts:
            return pa.nulls(len(frames), self.type), rejections
        order = pa.array(place, mask=place < 0)
        return pa.concat_arrays(parts).take(order), rejections


def masked(values: Any, keep: Any) -> Any:
    """The rows with the others null: a rejected row never shows half-decoded values."""
    if keep.all():
        return values
    children = [values.field(i) for i in range(values.type.num_fields)]
    valid = valid_mask(values)
    nulls = ~keep if valid is None else ~(keep & valid)
    return struct(children, values.type, pa.array(nulls), len(values))


def struct_type(reader: SchemaText | None, mapping: Mapping) -> Any:
    """The columns that a reader's schema gives."""
    return whole_type(mapping) if reader is None else column_format(reader.type).struct_type(reader, mapping)


def _unframed(headers: Headers) -> dict[int, Rejection]:
    short = Rejection(Reason.FRAME_TRUNCATED, "The message is shorter than a frame's header of five bytes.")
    foreign = Rejection(Reason.FRAME_FOREIGN, "The message does not start with a zero byte and a schema id.")
    found: dict[int, Rejection] = {}
    for row in np.flatnonzero(~headers.framed & ~headers.missing).tolist():
        found[row] = foreign if headers.long_enough[row] else short
    return found
