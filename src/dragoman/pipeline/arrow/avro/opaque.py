"""Values kept whole: read one by one, then written as VARIANT or JSON text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.core.errors import InvalidSchema, MessageError
from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.target import Opaque
from dragoman.pipeline.arrow.codec_rows import codec_of, parsed
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.rejection import Fault, Reason, Rejection
from dragoman.pipeline.arrow.variant import VARIANT_TYPE, to_json, to_variant

_FORMS: dict[str, tuple[Any, Any]] = {"variant": (VARIANT_TYPE, to_variant), "json": (pa.string(), to_json)}


def opaque(writer: str, target: Opaque, path: str) -> Resolver:
    """From the bytes of each value; they were found to be well-formed before."""
    decode = codec_of(SchemaText("AVRO", writer), SchemaText("AVRO", target.schema)).decode
    type, form = _FORMS[target.form]

    def resolve(array: Any, faults: list[Fault]) -> Any:
        wrong: dict[int, Rejection] = {}
        cells: list[Any] = []
        for row, raw in enumerate(array.to_pylist()):
            try:
                value = None if raw is None else decode(raw)
            except MessageError as error:
                wrong[row] = Rejection(Reason.INCOMPATIBLE, f"The value cannot be read: {error.what}", path)
                value = None
            cells.append(None if value is None else form(value))
        faults += [Fault(np.arange(len(cells)) == row, found) for row, found in wrong.items()]
        return pa.array(cells, type)

    return resolve


def opaque_default(target: Opaque) -> Resolver:
    """From a default of the schema, as JSON text."""
    type, form = _FORMS[target.form]

    def resolve(array: Any, faults: list[Fault]) -> Any:
        values = [None if raw is None else _default(target, json.loads(raw)) for raw in array.to_pylist()]
        return pa.array([None if value is None else form(value) for value in values], type)

    return resolve


def takes_default(target: Opaque, default: Any) -> bool:
    """Whether a default is of the type."""
    try:
        parsed(_with_default(target, default))
    except InvalidSchema:
        return False
    return True


def _default(target: Opaque, default: Any) -> Any:
    """The value that the codec gives a field which the writer does not have."""
    return codec_of(_whole([]), _with_default(target, default)).decode(b"")["value"]


def _with_default(target: Opaque, default: Any) -> SchemaText:
    return _whole([{"name": "value", "type": json.loads(target.schema), "default": default}])


def _whole(fields: list[Any]) -> SchemaText:
    return SchemaText("AVRO", json.dumps({"type": "record", "name": "whole", "fields": fields}))
