"""Values kept whole: read one by one, then written as VARIANT or JSON text."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.target import Opaque
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection
from dragoman.pipeline.arrow.variant import VARIANT_TYPE, to_json, to_variant

_FORMS: dict[str, tuple[Any, Any]] = {"variant": (VARIANT_TYPE, to_variant), "json": (pa.string(), to_json)}


def opaque(writer: str, target: Opaque, path: str) -> Resolver:
    """From the bytes of each value; they were found to be well-formed before."""
    written = fastavro.parse_schema(json.loads(writer))
    read_as = fastavro.parse_schema(json.loads(target.schema))
    type, form = _FORMS[target.form]

    def resolve(array: Any, faults: list[Fault]) -> Any:
        wrong: dict[int, Rejection] = {}
        cells: list[Any] = []
        for row, raw in enumerate(array.to_pylist()):
            try:
                value = None if raw is None else fastavro.schemaless_reader(BytesIO(raw), written, read_as)
            except Exception as error:
                wrong[row] = Rejection(Reason.INCOMPATIBLE, f"The value cannot be read: {error}", path)
                value = None
            cells.append(None if value is None else form(value))
        faults += [Fault(np.arange(len(cells)) == row, found) for row, found in wrong.items()]
        return pa.array(cells, type)

    return resolve


def opaque_default(target: Opaque) -> Resolver:
    """From a default of the schema, as JSON text."""
    type, form = _FORMS[target.form]

    def resolve(array: Any, faults: list[Fault]) -> Any:
        values = [None if raw is None else json.loads(raw) for raw in array.to_pylist()]
        return pa.array([None if value is None else form(value) for value in values], type)

    return resolve
