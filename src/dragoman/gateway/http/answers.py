"""From errors to answers: one table."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from dragoman.core.errors import GatewayError, NotNow
from dragoman.gateway.drop_off import Receipt

Headers = tuple[tuple[bytes, bytes], ...]

STATUSES: Mapping[str, int] = {
    "gateway.envelope.too-large": 413,
    "gateway.envelope.conflict": 409,
    "gateway.envelope": 400,
    "gateway.refused": 403,
    "gateway.too-many-requests": 429,
    "gateway.quota": 429,
    "gateway.not-now": 503,
    "gateway.store-away": 503,
    "gateway.broker-away": 503,
    "gateway.in-progress": 503,
}

_COMMON: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_JSON: Headers = (*_COMMON, (b"content-type", b"application/json"))


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    headers: Headers = _COMMON


class ErrorBody(msgspec.Struct, frozen=True):
    error: str
    """A stable code."""
    message: str


NOTHING = Answer(204)


def accepted(receipt: Receipt) -> Answer:
    return Answer(202, msgspec.json.encode(receipt), (*_JSON, (b"location", b"/collection")))


def collected(body: bytes) -> Answer:
    return Answer(200, body, _JSON)


def plain(status: int, body: bytes, media_type: str) -> Answer:
    return Answer(status, body, (*_COMMON, (b"content-type", media_type.encode())))


def error(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(status, msgspec.json.encode(ErrorBody(code, message)), (*_JSON, *headers))


def refused(failure: GatewayError) -> Answer:
    status = STATUSES.get(failure.code) or STATUSES.get(failure.code.rpartition(".")[0], 400)
    message = f"{failure.what} {failure.next}".strip()
    if not isinstance(failure, NotNow):
        return error(status, failure.code, message)
    seconds = str(max(1, math.ceil(failure.retry_after))).encode()
    return error(status, failure.code, message, (b"retry-after", seconds))
