"""Columns to framed Avro messages of one schema: every row checked, then written vectorised.

The vectorised writer puts 0 or "" for a null where none is allowed, without a word. So nothing reaches it
that was not found fit before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro

from dragoman.pipeline.arrow.avro.encode import Form, FormCompiler
from dragoman.pipeline.arrow.avro.resolve import default_of
from dragoman.pipeline.arrow.avro.target import target_of
from dragoman.pipeline.arrow.avro.tree import Field, Tree
from dragoman.pipeline.arrow.avro.wire import Skipper
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.rejection import Fault, Rejection, add_faults, good_rows
from dragoman.schema.framing import header_of

_NOTHING = pa.scalar(b"", pa.binary())


class AvroColumnEncoder:
    def __init__(self, writer: Tree, schema_id: int, mapping: Mapping) -> None:
        target = target_of(writer, mapping)
        schema = Skipper(writer, flat=False).wire(target, frozenset()).schema

        def default(field: Field, path: str) -> Callable[[int], Any]:
            return default_of(field, mapping, path)

        self._form: Form = FormCompiler(schema is not None, mapping, default).form(target)
        self._header = header_of(schema_id)
        self._schema = None if schema is None else json.dumps(schema)

    def problems(self, type: Any) -> list[str]:
        """Why rows of this struct type cannot be written, whatever they hold."""
        return self._form.problems(type, "")

    def encode(self, rows: Any) -> tuple[Any, dict[int, Rejection]]:
        faults: list[Fault] = []
        rejections: dict[int, Rejection] = {}
        columns = self._form.convert(rows, faults, None)
        add_faults(rejections, faults)
        if not rejections:
            return self._write(columns), rejections
        good = good_rows(len(rows), rejections)
        written = self._write(self._form.convert(rows.filter(pa.array(good)), [], None))
        place: Any = np.full(len(rows), -1, dtype=np.int64)
        place[good] = np.arange(len(written))
        return written.take(pa.array(place, mask=~good)), rejections

    def _write(self, columns: Any) -> Any:
        if self._schema is None or not len(columns):
            return self._write_rows(columns)
        batch = pa.RecordBatch.from_arrays(
            [columns.field(i) for i in range(columns.type.num_fields)], schema=pa.schema(list(columns.type))
        )
        payloads = pyruhvro.serialize_record_batch(batch, self._schema, 1)[0]
        return pc.binary_join_element_wise(pa.scalar(self._header, pa.binary()), payloads, _NOTHING)

    def _write_rows(self, columns: Any) -> Any:
        frames: list[bytes] = []
        for value in columns.to_pylist():
            out = bytearray(self._header)
            self._form.write(value, out)
            frames.append(bytes(out))
        return pa.array(frames, pa.binary())
