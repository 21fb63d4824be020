"""Framed messages to Arrow columns and back, vectorised and strict. Knows nothing of Spark."""

from dragoman.pipeline.arrow.audit import Audit, Finding, audit
from dragoman.pipeline.arrow.decoder import Decoded, Decoder
from dragoman.pipeline.arrow.encoder import Encoded, Encoder
from dragoman.pipeline.arrow.mapping import Mapping
from dragoman.pipeline.arrow.port import ColumnDecoder, ColumnEncoder, ColumnFormat, SchemaText
from dragoman.pipeline.arrow.rejection import ERROR_TYPE, Reason, Rejection

__all__ = [
    "ERROR_TYPE",
    "Audit",
    "ColumnDecoder",
    "ColumnEncoder",
    "ColumnFormat",
    "Decoded",
    "Decoder",
    "Encoded",
    "Encoder",
    "Finding",
    "Mapping",
    "Reason",
    "Rejection",
    "SchemaText",
    "audit",
]
