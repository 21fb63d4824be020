"""Records that the tests send."""

from __future__ import annotations

from dragoman import record


@record(namespace="fx")
class Price:
    symbol: str
    bid: float


@record(namespace="fx")
class Quote:
    symbol: str
    size: int
    raw: bytes = b""


@record(namespace="fx")
class Note:
    text: str
