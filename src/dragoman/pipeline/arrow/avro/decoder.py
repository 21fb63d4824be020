"""Framed Avro messages of one writer's schema to columns: vectorised, and every row checked.

The vectorised reader is fast but trusting: it ignores bytes behind a value, and one bad row fails the
whole call without saying which. So each frame is read as a record of its header, its value and an end
mark that is added to it. A row that took too few or too many bytes shows a wrong mark. When a call fails,
the rows are halved until those at fault are alone, and these are judged by the exact reader of ``rows``.
"""

from __future__ import annotations

import json
import os
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro

from dragoman.pipeline.arrow.arrays import fixed_width
from dragoman.pipeline.arrow.avro.match import Match
from dragoman.pipeline.arrow.avro.resolve import Compiler
from dragoman.pipeline.arrow.avro.rows import RowReader
from dragoman.pipeline.arrow.avro.tree import Record, Tree
from dragoman.pipeline.arrow.avro.wire import named
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.rejection import Fault, Malformed, Reason, Rejection, add_faults
from dragoman.schema.framing import HEADER_SIZE

CHUNK = 512
"""A batch with bad rows is read in parts of so many rows."""
SMALLEST = 8
"""So few rows are not halved further: reading them one by one is cheaper than a call."""


def _end_mark() -> bytes:
    """Four bytes that no sender can foresee, and that are a plain number as a float."""
    mark = bytearray(os.urandom(4))
    mark[3] &= 0xBF
    return bytes(mark)


_MARK = _end_mark()
_MARK_NUMBER = np.frombuffer(_MARK, dtype="<u4")[0]
_MARK_SCALAR = pa.scalar(_MARK, pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())


class AvroColumnDecoder:
    def __init__(self, writer: Tree, target: Record, match: Match, mapping: Mapping) -> None:
        step = Compiler(writer, mapping).step(writer.root, target, match)
        self._wire = step.wire
        self._resolve = step.resolve
        self._schema = None if step.wire.schema is None else _frame_schema(step.wire.schema)
        self._bad_before = False

    def decode(self, frames: Any) -> tuple[Any, dict[int, Rejection]]:
        if self._schema is None:
            return self._by_rows(frames.to_pylist())
        marked = pc.binary_join_element_wise(frames, _MARK_SCALAR, _NOTHING)
        rows = marked.to_numpy(zero_copy_only=False).tolist()
        # Bad rows come in company: after a batch with some, the next is not tried whole.
        batch = None if self._bad_before else _try(rows, self._schema)
        if batch is None:
            return self._by_parts(rows, self._schema)
        return self._finish(batch, rows)

    def _finish(self, batch: Any, rows: list[bytes]) -> tuple[Any, dict[int, Rejection]]:
        """Resolve what was read, and reject the rows whose end mark is wrong."""
        rejections: dict[int, Rejection] = {}
        wrong = fixed_width(batch.column(3), np.dtype("<u4")) != _MARK_NUMBER
        for row in np.flatnonzero(wrong).tolist():
            rejections[row] = self._why(rows[row])
        values = batch.column(2)
        restore = self._wire.restore
        return self._resolved(values if restore is None else restore(values), rejections)

    def _resolved(self, values: Any, rejections: dict[int, Rejection]) -> tuple[Any, dict[int, Rejection]]:
        faults: list[Fault] = []
        columns = self._resolve(values, faults)
        add_faults(rejections, faults)
        return columns, rejections

    def _why(self, marked: bytes) -> Rejection:
        try:
            read_frame(self._wire.read, marked[: -len(_MARK)])
        except Malformed as found:
            return found.rejection
        return Rejection(Reason.SYNTAX, "The fast and the exact reader disagree about this message.")

    def _by_parts(self, rows: list[bytes], schema: str) -> tuple[Any, dict[int, Rejection]]:
        """Part by part, with a good row in the place of each bad one."""
        rejections: dict[int, Rejection] = {}
        filled: list[bytes] = []
        batches = []
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            batch = _try(part, schema)
            if batch is None:
                found = self._judged(part, _suspects(part, schema))
                others = (row for number, row in enumerate(part) if number not in found)
                good = next(chain(others, filled), b"")
                part = [good if number in found else row for number, row in enumerate(part)]
                rejections |= {start + number: rejection for number, rejection in found.items()}
                batch = _try(part, schema)
            if batch is None:  # none is good, or the two readers disagree: the exact one is right
                return self._by_rows([row[: -len(_MARK)] for row in rows])
            filled += part
            batches.append(batch)
        self._bad_before = bool(rejections)
        columns, found = self._finish(pa.concat_batches(batches), filled)
        return columns, found | rejections

    def _judged(self, rows: list[bytes], suspects: list[int]) -> dict[int, Rejection]:
        """What the exact reader finds wrong with some rows."""
        found: dict[int, Rejection] = {}
        for row in suspects:
            try:
                read_frame(self._wire.read, rows[row][: -len(_MARK)])
            except Malformed as malformed:
                found[row] = malformed.rejection
        return found

    def _by_rows(self, frames: list[bytes]) -> tuple[Any, dict[int, Rejection]]:
        rejections: dict[int, Rejection] = {}
        values: list[Any] = []
        for row, frame in enumerate(frames):
            try:
                values.append(read_frame(self._wire.read, frame))
            except Malformed as found:
                rejections[row] = found.rejection
                values.append(None)
        return self._resolved(pa.array(values, self._wire.type), rejections)


def _suspects(rows: list[bytes], schema: str) -> list[int]:
    """Some rows of a part that failed, with all those among them that make the vectorised reader fail."""
    found: list[int] = []
    failing = [(0, len(rows))]
    while failing:
        start, stop = failing.pop()
        if stop - start <= SMALLEST:
            found += range(start, stop)
            continue
        middle = (start + stop) // 2
        first_fails = _try(rows[start:middle], schema) is None
        if first_fails:
            failing.append((start, middle))
        # If the first half is good, it must be the second.
        if not first_fails or _try(rows[middle:stop], schema) is None:
            failing.append((middle, stop))
    return found


def read_frame(read: RowReader, frame: bytes) -> Any:
    """The value of one frame, all of it. Raises ``Malformed``."""
    try:
        value, end = read(frame, HEADER_SIZE)
    except RecursionError:
        raise Malformed(Reason.DEPTH, "The value is nested too deep.") from None
    if end != len(frame):
        raise Malformed(Reason.TRAILING, f"{len(frame) - end} bytes follow the value.")
    return value


def _frame_schema(value: Any) -> str:
    """A boolean and a float are as wide as the five bytes of the header."""
    fields = [("magic", "boolean"), ("id", "float"), ("value", value), ("mark", "float")]
    return json.dumps(named("record", fields=[{"name": name, "type": type} for name, type in fields]))


def _try(rows: list[bytes], schema: str) -> Any:
    """One call of the vectorised reader; ``None`` if it fails."""
    try:
        return pyruhvro.deserialize_array(rows, schema)
    except Exception:
        return None
    except BaseException as error:
        # A panic of the extension does not derive from Exception.
        if type(error).__name__ != "PanicException":
            raise
        return None
