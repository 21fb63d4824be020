"""Runtime expressions: ``$message.payload#/a/b`` names a place in a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.language.model import Model
from dragoman.language.shape import Many, Named, Record, Scalar, Shape, Tuple, Union, Unknown, shape_of
from dragoman.language.syntax import Content, Message

_FORMAT = re.compile(r"\$message\.(header|headers|payload)#((?:/(?:[^~/]|~[01])*)*)")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Pointer:
    part: str
    """``payload`` or ``header``."""
    tokens: tuple[str, ...]


def read_pointer(text: str) -> Pointer | None:
    """The parts of an expression, or nothing if it is not one."""
    found = _FORMAT.fullmatch(text)
    if found is None:
        return None
    tokens = found[2].split("/")[1:]
    part = "payload" if found[1] == "payload" else "header"
    return Pointer(part, tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens))


def index_of(token: str) -> int | None:
    """The place in a list that a token names, or nothing."""
    return int(token) if _INDEX.fullmatch(token) else None


def canonical(text: str) -> str:
    """The expression as AsyncAPI writes it."""
    return text.replace("$message.headers#", "$message.header#")


def root_of(content: Content, part: str) -> Shape | None:
    structure = content.payload if part == "payload" else content.headers
    return shape_of(structure) if structure is not None else None


def target(model: Model, message: Message, pointer: Pointer) -> Shape | None:
    """What the pointer points at in a message, or nothing."""
    shape = root_of(message.content, pointer.part)
    for token in pointer.tokens:
        if shape is None:
            return None
        shape = _step(model, shape, token, 0)
    return shape


def _step(model: Model, shape: Shape, token: str, depth: int) -> Shape | None:
    match shape:
        case Unknown():
            return shape
        case Named(name) if depth < _DEEPEST and name in model.types:
            return _step(model, shape_of(model.types[name].structure), token, depth + 1)
        case Record(fields):
            return next((field.shape for field in fields if field.name == token), None)
        case Union(options):
            found = (_step(model, option, token, depth + 1) for option in options)
            return next((each for each in found if each is not None), None)
        case Many(item) if index_of(token) is not None:
            return item
        case Tuple(items) if (place := index_of(token)) is not None and place < len(items):
            return items[place]
    return None


def pointers(model: Model, message: Message) -> Iterator[str]:
    """All expressions that name a single value in a message, shallow ones first."""
    for part in ("payload", "header"):
        shape = root_of(message.content, part)
        if shape is not None:
            found = sorted(_paths(model, shape, (), 0), key=len)
            yield from (f"$message.{part}#/" + "/".join(path) for path in found)


def _paths(model: Model, shape: Shape, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    if depth > _DEEPEST:
        return
    match shape:
        case Named(name) if name in model.types:
            yield from _paths(model, shape_of(model.types[name].structure), path, depth + 1)
        case Record(fields):
            for field in fields:
                token = field.name.replace("~", "~0").replace("/", "~1")
                yield from _paths(model, field.shape, (*path, token), depth + 1)
        case Scalar() | Unknown() if path:
            yield path
