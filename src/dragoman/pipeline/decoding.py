"""Frames from anywhere, such as Spark's own Kafka source or files, as typed columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from dragoman.core.defaults import default_registry
from dragoman.core.errors import ConfigurationError, DecodeError
from dragoman.pipeline.arrow import Decoded, Decoder, Mapping
from dragoman.pipeline.arrow.decoder import struct_type
from dragoman.pipeline.arrow.rejection import ERROR_TYPE
from dragoman.pipeline.faults import across_spark
from dragoman.pipeline.layout import ERROR, FRAME
from dragoman.pipeline.newer import Following
from dragoman.pipeline.options import RegistryAccess
from dragoman.pipeline.reading import error_columns
from dragoman.pipeline.schemas import ReaderVersion, schemas
from dragoman.pipeline.waiting import patiently

WAIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Plan:
    column: str
    reader: ReaderVersion | None
    registry: RegistryAccess
    mapping: Mapping
    into: str
    fail: bool
    following: Following | None = None
    """If the reader is the contract's latest version."""


def decode(
    df: Any,
    column: str,
    contract: str,
    version: int | str = "latest",
    *,
    registry: str | RegistryAccess | None = None,
    mode: str = "quarantine",
    into: str = "",
    mapping: Mapping | None = None,
) -> Any:
    """The DataFrame with the frames in ``column`` replaced by the contract's columns.

    The other columns stay. With ``into`` the contract's columns are one struct of that name. ``mode`` is
    ``quarantine``, which adds ``_error`` and, for rejected rows, ``_frame``; or ``fail``. ``version`` is
    ``latest``, a number, or ``writer`` for messages as they were written.

    Works on batches and streams. With ``latest`` both stop at the first message of a version that came
    after this call: raises ``Conflict`` with the code ``pipeline.newer-version``.
    """
    from dragoman.pipeline.types import arrow_schema, spark_schema

    if mode not in ("quarantine", "fail"):
        raise ConfigurationError(f"mode cannot be {mode!r}.", next="Allowed: quarantine, fail.")
    access = (
        registry if isinstance(registry, RegistryAccess) else RegistryAccess(registry or default_registry())
    )
    reader = None if version == "writer" else schemas(access).reader(contract, str(version))
    chosen = mapping or Mapping()
    following = None
    if reader is not None and version == "latest":
        following = Following(contract, reader, reader.version, access, chosen, df.isStreaming)
    plan = _Plan(column, reader, access, chosen, into, mode == "fail", following)
    schema = spark_schema(_output(arrow_schema(df.schema), plan))
    return df.mapInArrow(_mapper(plan, arrow_schema(schema)), schema)


def _output(given: Any, plan: _Plan) -> Any:
    if plan.column not in given.names or not pa.types.is_binary(given.field(plan.column).type):
        raise ConfigurationError(
            f"There is no binary column {plan.column!r}.", next=f"The columns are: {', '.join(given.names)}."
        )
    columns = struct_type(plan.reader.schema if plan.reader else None, plan.mapping)
    kept = [each for each in given if each.name != plan.column]
    decoded = [pa.field(plan.into, columns)] if plan.into else list(columns)
    added = [] if plan.fail else [pa.field(ERROR, ERROR_TYPE), pa.field(FRAME, pa.binary())]
    names = [each.name for each in (*kept, *decoded, *added)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"The columns would not be unique: {', '.join(twice)}.",
            next="Drop or rename some first, or put the contract's columns into one with into='name'.",
        )
    return pa.schema([*kept, *decoded, *added])


def _mapper(plan: _Plan, schema: Any) -> Any:
    def map_batches(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            with across_spark():
                decoded = _decoded(plan, schema, batch)
            yield decoded

    return map_batches


def _decoded(plan: _Plan, schema: Any, batch: Any) -> Any:
    frames = batch.column(plan.column)
    decoded = patiently(lambda: _decoder(plan).decode(frames), WAIT_SECONDS)
    following = plan.following
    if following is not None:
        ids = decoded.schema_ids.unique().drop_null().to_pylist()
        patiently(lambda: following.refuse_newer(ids), WAIT_SECONDS)
    if plan.fail and decoded.rejections:
        raise _failure(decoded)
    cells = [batch.column(name) for name in batch.schema.names if name != plan.column]
    cells += [decoded.values] if plan.into else decoded.columns()
    if not plan.fail:
        cells += error_columns(decoded, frames)
    return pa.RecordBatch.from_arrays(cells, schema=schema)


@lru_cache(maxsize=64)
def _decoder(plan: _Plan) -> Decoder:
    return Decoder(plan.reader.schema if plan.reader else None, schemas(plan.registry).text, plan.mapping)


def _failure(decoded: Decoded) -> DecodeError:
    found = decoded.rejections[min(decoded.rejections)]
    return DecodeError(
        found.reason,
        code=str(found.code),
        next="Decode with mode quarantine to keep such messages apart.",
        field=found.path or None,
    )
