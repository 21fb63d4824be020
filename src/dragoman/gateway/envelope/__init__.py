"""SIMEX envelopes: their shape, their JSON, and the way between their data and records."""

from __future__ import annotations

from dragoman.gateway.envelope.derivation import (
    collection,
    combined,
    failed,
    failure,
    nested,
    parts,
    request,
    response,
)
from dragoman.gateway.envelope.mapping import from_data, to_data
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import (
    Datum,
    Destination,
    Envelope,
    Originator,
    Sender,
    datum,
    replaced,
    walk,
)
from dragoman.gateway.envelope.wire import check_data, from_json, to_json

__all__ = [
    "Datum",
    "Destination",
    "Envelope",
    "Method",
    "Originator",
    "Sender",
    "check_data",
    "collection",
    "combined",
    "datum",
    "failed",
    "failure",
    "from_data",
    "from_json",
    "nested",
    "parts",
    "replaced",
    "request",
    "response",
    "to_data",
    "to_json",
    "walk",
]
