"""Record classes made from a schema while the program runs, for tools that write code or show records.

The classes are made first and annotated afterwards, since schemas may contain themselves.
"""

from __future__ import annotations

import dataclasses
import keyword
from enum import Enum
from typing import Any, NamedTuple

from dragoman.core.errors import InvalidSchema
from dragoman.schema.classes import SCOPE
from dragoman.schema.records import named, record
from dragoman.schema.types import MISSING


class Attribute(NamedTuple):
    """An attribute of a class to be made. Its annotation is added by ``annotate``."""

    name: str
    default: Any = MISSING


def make_record(name: str, namespace: str, attributes: list[Attribute]) -> type:
    """A class without annotations yet. What has no default after something that has becomes keyword-only.

    Raises ``InvalidSchema`` if two fields have the same name in Python, as ``class`` and ``class_`` have.
    """
    if len({each.name for each in attributes}) < len(attributes):
        raise InvalidSchema(
            f"Two fields of {name} have the same name in Python.",
            next="Read it without a class, as plain values.",
        )
    body: dict[str, Any] = {"__annotations__": {each.name: "object" for each in attributes}}
    defaulted = False
    for each in attributes:
        if each.default is MISSING:
            if defaulted:
                body[each.name] = dataclasses.field(kw_only=True)
            continue
        defaulted = True
        body[each.name] = _default(each.default)
    made: type = record(name=name, namespace=namespace)(type(name, (), body))
    return made


def _default(value: Any) -> Any:
    if isinstance(value, list | dict | set):
        kind, content = type(value), value
        return dataclasses.field(default_factory=lambda: kind(content))
    return value


def annotate(cls: type, annotations: dict[str, Any]) -> None:
    """Say what the attributes are. Needed once, before the class is described or used."""
    setattr(cls, SCOPE, annotations)


def make_enum(name: str, namespace: str, members: list[tuple[str, int]]) -> type[Enum]:
    """Raises ``InvalidSchema`` if a label is none that Python's enums can have, as ``mro``."""
    build: Any = Enum
    try:
        made: type[Enum] = build(name, members)
    except ValueError as error:
        raise InvalidSchema(
            f"{name} cannot be an enum of Python: {error}.",
            code="schema.indescribable",
            next="Read it without a class, as plain values.",
        ) from error
    return named(name=name, namespace=namespace)(made)


def attribute_name(field: str) -> str:
    """A name that Python allows for a field; the field then needs a ``Name`` marker."""
    return field + "_" if keyword.iskeyword(field) or field.startswith("__") else field
