"""Why a row was rejected: stable codes, a sentence, and the place in the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

ERROR_TYPE = pa.struct([("code", pa.string()), ("reason", pa.string()), ("path", pa.string())])


class Reason(StrEnum):
    """Codes that quarantine tables keep for years: add to them, never change one."""

    FRAME_TRUNCATED = "message.frame.truncated"
    FRAME_FOREIGN = "message.frame.foreign"
    UNKNOWN_SCHEMA = "message.unknown-schema"
    INCOMPATIBLE = "message.decode.incompatible"
    TRUNCATED = "message.decode.truncated"
    TRAILING = "message.decode.trailing"
    NUMBER = "message.decode.number"
    BOOLEAN = "message.decode.boolean"
    LENGTH = "message.decode.length"
    ENUM = "message.decode.enum"
    UNION = "message.decode.union"
    TEXT = "message.decode.text"
    RANGE = "message.decode.range"
    DECIMAL = "message.decode.decimal"
    UUID = "message.decode.uuid"
    TIME = "message.decode.time"
    NULL = "message.decode.null"
    DEPTH = "message.decode.depth"
    SYNTAX = "message.decode.syntax"
    TYPE = "message.decode.type"
    CONSTRAINT = "message.constraint"
    EXPIRED = "message.expired"
    ENCODE_NULL = "message.encode.null"
    ENCODE_ENUM = "message.encode.enum"
    ENCODE_RANGE = "message.encode.range"
    ENCODE_DECIMAL = "message.encode.decimal"
    ENCODE_LENGTH = "message.encode.length"
    ENCODE_UNION = "message.encode.union"
    ENCODE_UUID = "message.encode.uuid"
    ENCODE_TIME = "message.encode.time"
    ENCODE_TYPE = "message.encode.type"


@dataclass(frozen=True, slots=True)
class Rejection:
    """``path`` is the field's place, such as ``items[].price``; empty for the message as a whole."""

    code: str
    reason: str
    path: str = ""


class Malformed(Exception):
    """One row is at fault. Raised by row readers, caught where rows are told apart."""

    def __init__(self, code: str, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.rejection = Rejection(code, reason, path)


@dataclass(frozen=True, slots=True)
class Fault:
    """A rejection of all rows where ``mask`` is true."""

    mask: Any
    rejection: Rejection


def add_faults(rejections: dict[int, Rejection], faults: list[Fault]) -> None:
    """The first fault found on a row is the one reported."""
    for fault in faults:
        for row in np.flatnonzero(fault.mask).tolist():
            rejections.setdefault(row, fault.rejection)


def error_column(count: int, rejections: Mapping[int, Rejection]) -> Any:
    """A struct per row, null where nothing is wrong."""
    if not rejections:
        return pa.nulls(count, ERROR_TYPE)
    cells: list[dict[str, str] | None] = [None] * count
    for row, found in rejections.items():
        cells[row] = {"code": str(found.code), "reason": found.reason, "path": found.path}
    return pa.array(cells, ERROR_TYPE)


def good_rows(count: int, rejections: Mapping[int, Rejection]) -> Any:
    """A boolean mask, true where the row was not rejected."""
    mask: Any = np.ones(count, dtype=bool)
    if rejections:
        mask[np.fromiter(rejections, dtype=np.int64, count=len(rejections))] = False
    return mask
