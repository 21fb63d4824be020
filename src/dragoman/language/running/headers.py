"""The headers that a model says its messages have: checked before a message is sent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dragoman.client.headers import CORRELATION_ID, EXPIRES_AT, MESSAGE_ID, REPLY_TO
from dragoman.core.errors import EncodeError
from dragoman.core.message import Headers, header
from dragoman.language import syntax as s
from dragoman.language.model import Model
from dragoman.language.running.parameters import WRITTEN
from dragoman.language.shape import Named, Record, Scalar, Shape, shape_of

_DEEPEST = 16
"""Data types may refer to each other in a circle."""
_LONGEST_NUMBER = 400
_LARGEST_FLOAT = float.fromhex("0x1.fffffep+127")


class Declared(NamedTuple):
    """A header that the model has."""

    name: str
    optional: bool
    basic: str | None
    """Its type, if it is a single value."""


def declared(model: Model, message: s.Message) -> list[Declared]:
    if message.content.headers is None:
        return []
    shape = _resolved(model, shape_of(message.content.headers))
    return list(_fields(model, shape)) if isinstance(shape, Record) else []


def to_be_given(model: Model, message: s.Message) -> list[str]:
    """Headers that a message needs, and that the client does not write by itself."""
    own = {MESSAGE_ID, EXPIRES_AT} if message.expires else {MESSAGE_ID}
    if message.part == "request":
        own |= {CORRELATION_ID, REPLY_TO}
    elif message.part == "reply":
        own.add(CORRELATION_ID)
    return [each.name for each in declared(model, message) if not each.optional and each.name not in own]


def needs_id(model: Model, message: s.Message) -> bool:
    """Whether the model wants each message to have an id. A client then writes one on every broker."""
    return any(each.name == MESSAGE_ID and not each.optional for each in declared(model, message))


def _fields(model: Model, record: Record) -> Iterator[Declared]:
    for field in record.fields:
        inner = _resolved(model, field.shape)
        basic = inner.basic if isinstance(inner, Scalar) else None
        if basic != "void":
            yield Declared(field.name, field.optional, basic)


def _resolved(model: Model, shape: Shape) -> Shape:
    for _ in range(_DEEPEST):
        if not isinstance(shape, Named) or shape.name not in model.types:
            break
        shape = shape_of(model.types[shape.name].structure)
    return shape


def header_check(model: Model, message: s.Message, place: str) -> Callable[[Headers], None] | None:
    """A function that raises ``EncodeError`` for headers which are not the model's; ``None`` if all will do.

    Headers that the model does not have are not checked. What a header holds is never in the error.
    """
    known = declared(model, message)
    if not known:
        return None

    def check(pairs: Headers) -> None:
        for name, optional, basic in known:
            found = header(pairs, name)
            if found is None and not optional:
                raise _refused(f"{message.name.text} has no header {name!r}.", name, place)
            if found is not None and not _is(basic, found):
                raise _refused(f"The header {name!r} of {message.name.text} is no {basic}.", name, place)

    return check


def _refused(what: str, name: str, place: str) -> EncodeError:
    return EncodeError(
        what,
        code="message.header",
        next=f"Send it as the model says: headers={{{name!r}: ...}}.",
        model=place,
    )


def _is(basic: str | None, value: bytes) -> bool:
    """Headers are text; a number is one that readers in all languages take for the same."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return basic not in (*WRITTEN, "string")
    written = WRITTEN.get(basic or "")
    if written is not None and written.fullmatch(text) is None:
        return False
    match basic:
        case "int" | "long":
            bound = 2 ** (31 if basic == "int" else 63)
            return len(text) <= _LONGEST_NUMBER and -bound <= int(text) < bound
        case "float" | "double":
            return abs(float(text)) <= (_LARGEST_FLOAT if basic == "float" else sys.float_info.max)
    return True
