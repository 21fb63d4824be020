"""Which reply belongs to which request: by a header, or by a place in both payloads.

``$message.header#/order-number`` is a header, ``$message.payload#/order/number`` a place in the payload,
named as in the schema. Without one of them it is the header ``correlation-id``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from dragoman.core.errors import ConfigurationError, EncodeError
from dragoman.core.message import Headers, header
from dragoman.schema.records import describe, is_record

_EXPRESSION = re.compile(r"\$message\.(headers?|payload)#((?:/(?:[^~/]|~[01])*)+)")


@dataclass(frozen=True, slots=True)
class Correlation:
    """A place in messages that holds the same in a request and its reply."""

    part: Literal["header", "payload"]
    steps: tuple[str, ...]

    @property
    def header(self) -> str:
        return "/".join(self.steps)

    def in_headers(self, headers: Headers) -> bytes | None:
        return header(headers, self.header)

    def in_value(self, value: object) -> bytes | None:
        """What a payload holds there, as text; ``None`` if it holds nothing."""
        for step in self.steps:
            value = _step(value, step)
        return None if value is None else text_of_value(value).encode()

    def __str__(self) -> str:
        steps = (step.replace("~", "~0").replace("/", "~1") for step in self.steps)
        return f"$message.{self.part}#/{'/'.join(steps)}"


def read_correlation(text: str) -> Correlation:
    """Raises ``ConfigurationError`` if the text is not such an expression."""
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{text!r} names no place in a message.",
            code="configuration.correlation",
            next="Write $message.header#/name or $message.payload#/field/field.",
        )
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in found[2].split("/")[1:])
    return Correlation("payload" if found[1] == "payload" else "header", steps)


def text_of_value(value: object) -> str:
    """A plain value as every program would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping | list | tuple) or is_record(type(value)):
        raise EncodeError(
            f"A {type(value).__qualname__} correlates nothing.",
            code="message.correlation",
            next="Point at a plain value: a number, a text, an id.",
        )
    return str(value)


def _step(value: object, step: str) -> Any:
    """One step down: a field of a record or mapping, or a place in a list."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list | tuple):
        return value[int(step)] if step.isdigit() and int(step[:9]) < len(value) else None
    if is_record(type(value)):
        for field in describe(type(value)).fields:
            if field.name == step:
                return getattr(value, field.attribute)
    return None


def has_place(cls: type, correlation: Correlation) -> bool:
    """Whether the first step of a place in the payload is a field of the class."""
    return any(field.name == correlation.steps[0] for field in describe(cls).fields)
