"""A data type in any schema language."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.language.generators.avro import avro_schema
from dragoman.language.generators.json_schema import json_schema
from dragoman.language.generators.protobuf import protobuf_schema
from dragoman.language.generators.thrift import thrift_schema
from dragoman.language.model import Model

FORMATS: dict[str, tuple[str, Callable[[Model, str], str]]] = {
    "avro": ("avsc", avro_schema),
    "json": ("json", json_schema),
    "protobuf": ("proto", protobuf_schema),
    "thrift": ("thrift", thrift_schema),
}
"""By name: the ending of its files, and the function that writes one."""


def schema(model: Model, name: str, format: str) -> str:
    """The schema of a data type. Raises ``NotFound`` for a type the model does not have."""
    if format not in FORMATS:
        raise ConfigurationError(
            f"There is no schema language {format!r}.",
            code="language.format",
            next=f"Choose: {', '.join(FORMATS)}.",
        )
    if name not in model.types:
        raise NotFound(
            f"The model has no data type {name!r}.",
            code="language.type",
            next=f"It has: {', '.join(model.types) or 'none'}.",
        )
    return FORMATS[format][1](model, name)
