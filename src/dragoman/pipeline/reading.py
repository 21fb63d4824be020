"""Ranges of a log to batches of typed rows. Runs on the workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.client.headers import EXPIRES_AT
from dragoman.core.errors import BrokerError, DamagedLog, DecodeError
from dragoman.pipeline.arrow import Decoded, Reason, Rejection
from dragoman.pipeline.arrow.arrays import offsets_of
from dragoman.pipeline.arrow.frames import headers_of
from dragoman.pipeline.layout import META_TYPE
from dragoman.pipeline.plan import ReadPlan, decoder_for, open_log
from dragoman.pipeline.schemas import schemas
from dragoman.pipeline.slices import Columns, columns_of, joined, unpacked_headers
from dragoman.pipeline.waiting import patiently

_log = logging.getLogger(__name__)

BATCH_BYTES = 64 << 20
"""So many bytes are a batch, however few messages they are."""
_EXPIRED = Rejection(Reason.EXPIRED, "Its time had passed before it was read.")


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, from ``start`` on and before ``end``."""

    channel: str
    partition: int
    start: int
    end: int


class RangeReader:
    """Refuses messages that a later version of the contract has to read than the plan's."""

    def __init__(self, plan: ReadPlan, schema: Any, seconds: float, *, streaming: bool = False) -> None:
        self._plan = plan
        self._streaming = streaming
        self._schema = schema
        self._seconds = seconds

    def batches(self, range: Range) -> Iterator[Any]:
        for columns in self.columns(range):
            yield from self._batches(range, columns)

    def columns(self, range: Range) -> Iterator[Columns]:
        """Slices of the log, small ones together, large ones cut, to batches of the wanted size."""
        wanted = self._plan.options.batch_rows
        waiting: list[Columns] = []
        for columns in self._slices(range):
            for at in _steps(len(columns), wanted):
                waiting.append(columns.slice(at, wanted))
                heavy = sum(each.frames.nbytes for each in waiting) >= BATCH_BYTES
                if heavy or sum(map(len, waiting)) >= wanted // 2:
                    yield joined(waiting)
                    waiting = []
        if waiting:
            yield joined(waiting)

    def _slices(self, range: Range) -> Iterator[Columns]:
        at = range.start
        while at < range.end:
            try:
                found = patiently(lambda at=at: self._read(range, at), self._seconds)  # type: ignore[misc]
            except DamagedLog as error:
                self._refuse_damage(error)
                at = min(error.until, range.end)
                _leave_out(range, error.first, at, "damaged in the log, or missing")
                continue
            if found.count:
                yield columns_of(found)
            if found.next_offset <= at:
                self._refuse_missing(range, at)
                return
            at = found.next_offset

    def _refuse_missing(self, range: Range, at: int) -> None:
        """The log says that there is nothing more, though there was when the range was planned."""
        if self._plan.options.fail_on_data_loss:
            raise BrokerError(
                f"The messages from {at} to {range.end - 1} are not there any more.",
                code="broker.data-loss",
                next="Set failOnDataLoss to false to go on without them.",
                channel=range.channel,
                partition=range.partition,
            )
        _leave_out(range, at, range.end, "not there any more")

    def _refuse_damage(self, error: DamagedLog) -> None:
        if self._plan.options.fail_on_data_loss:
            raise error.passable("set failOnDataLoss to false to go on without the messages.") from None

    def _read(self, range: Range, at: int) -> Any:
        return open_log(self._plan.options.broker).read(range.channel, range.partition, at, range.end)

    def _batches(self, range: Range, columns: Columns) -> Iterator[Any]:
        headers = unpacked_headers(columns.headers)
        if self._plan.options.mode == "raw":
            yield self._raw(range, columns, headers)
            return
        decoded = patiently(lambda: decoder_for(self._plan).decode(columns.frames), self._seconds)
        patiently(lambda: self._refuse_newer(range, decoded), self._seconds)
        if self._plan.options.expired == "quarantine":
            decoded = _without_expired(decoded, headers)
        if self._plan.options.mode == "fail" and decoded.rejections:
            raise self._failure(range, columns, decoded)
        yield self._typed(range, columns, headers, decoded)

    def _refuse_newer(self, range: Range, decoded: Decoded) -> None:
        following = self._plan.following(range.channel, self._streaming)
        if following is not None:
            following.refuse_newer(decoded.schema_ids.unique().drop_null().to_pylist())

    def _raw(self, range: Range, columns: Columns, headers: Any) -> Any:
        found = headers_of(columns.frames)
        ids = pa.array(found.ids, pa.int32(), mask=~found.framed)
        cells = [columns.frames, ids]
        if self._plan.options.include_meta:
            cells.append(self._meta(range, columns, headers, ids))
        return pa.RecordBatch.from_arrays(cells, schema=self._schema)

    def _typed(self, range: Range, columns: Columns, headers: Any, decoded: Decoded) -> Any:
        cells = decoded.columns()
        if self._plan.options.include_meta:
            cells.append(self._meta(range, columns, headers, decoded.schema_ids))
        if self._plan.options.mode == "quarantine":
            cells += error_columns(decoded, columns.frames)
        return pa.RecordBatch.from_arrays(cells, schema=self._schema)

    def _meta(self, range: Range, columns: Columns, headers: Any, ids: Any) -> Any:
        count = len(columns)
        version = self._plan.reader.version if self._plan.reader else None
        times = pc.multiply(columns.timestamps, 1000).view(pa.timestamp("us", "UTC"))
        cells = [
            pa.repeat(pa.scalar(range.channel), count),
            pa.repeat(pa.scalar(range.partition, pa.int32()), count),
            columns.offsets,
            times,
            columns.keys,
            headers,
            ids,
            pa.repeat(pa.scalar(version, pa.int32()), count),
            self._writer_versions(range.channel, ids),
        ]
        return pa.StructArray.from_arrays(cells, fields=list(META_TYPE))

    def _writer_versions(self, channel: str, ids: Any) -> Any:
        contract = self._plan.contract_of(channel)
        known = schemas(self._plan.options.registry)
        found = ids.unique().drop_null().to_pylist()
        versions = [
            patiently(lambda each=each: known.writer_version(contract, each), self._seconds)  # type: ignore[misc]
            for each in found
        ]
        if len(found) == 1 and not ids.null_count:
            return pa.repeat(pa.scalar(versions[0], pa.int32()), len(ids))
        places = pc.index_in(ids, pa.array(found, pa.int32()))
        return pa.array(versions, pa.int32()).take(places)

    def _failure(self, range: Range, columns: Columns, decoded: Decoded) -> DecodeError:
        row = min(decoded.rejections)
        found = decoded.rejections[row]
        return DecodeError(
            found.reason,
            code=str(found.code),
            next="Read with mode quarantine to keep such messages apart.",
            channel=range.channel,
            partition=range.partition,
            offset=columns.offsets[row].as_py(),
            field=found.path or None,
        )


def _leave_out(range: Range, first: int, until: int, why: str) -> None:
    _log.warning(
        "Left out %d messages: %d to %d are %s.",
        until - first,
        first,
        until - 1,
        why,
        extra={"channel": range.channel, "partition": range.partition},
    )


def _steps(count: int, width: int) -> Iterator[int]:
    at = 0
    while at < count:
        yield at
        at += width


def error_columns(decoded: Decoded, frames: Any) -> list[Any]:
    """What is wrong with each row, and the frames of those with which something is."""
    count = len(frames)
    if not decoded.rejections:
        return [decoded.errors(), pa.nulls(count, pa.binary())]
    bad: Any = np.zeros(count, dtype=bool)
    bad[list(decoded.rejections)] = True
    return [decoded.errors(), pc.if_else(pa.array(bad), frames, pa.scalar(None, pa.binary()))]


def _without_expired(decoded: Decoded, headers: Any) -> Decoded:
    names = headers.values.field(0)
    hits = np.flatnonzero(pc.equal(names, EXPIRES_AT).to_numpy(zero_copy_only=False))
    if not hits.size:
        return decoded
    rows: Any = np.searchsorted(offsets_of(headers), hits, side="right") - 1
    values = headers.values.field(1).take(pa.array(hits)).to_pylist()
    now = int(time.time() * 1000)
    expires = {
        row: int(value)
        for row, value in zip(rows.tolist(), values, strict=True)
        if len(value) <= 19 and value.isdigit()
    }
    return decoded.reject({row: _EXPIRED for row, at in expires.items() if at <= now})
