"""What only Protobuf asks about a field, written in ``Annotated[...]``.

count: Annotated[int, Tag(7), Kind("sint32")]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dragoman.core.errors import InvalidSchema
from dragoman.schema.classes import shape_of
from dragoman.schema.describing import marker, unwrapped


@dataclass(frozen=True, slots=True)
class Tag:
    """The field's number. Without it, fields are numbered from 1 in the order of their declaration."""

    number: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The scalar type where the usual one is not meant: ``sint32``, ``fixed64``, ``uint32``, ..."""

    name: str


@dataclass(frozen=True, slots=True)
class Oneof:
    """The oneof that this optional field belongs to."""

    name: str


class Marks(NamedTuple):
    tag: int | None
    kind: str | None
    oneof: str | None


def marks_of(cls: type) -> list[Marks]:
    """The markers of each field, in the order in which ``describe`` gives the fields."""
    found = []
    for attribute in shape_of(cls).attributes:
        _, marks = unwrapped(attribute.annotation, ())
        for each in _inner(attribute.annotation):
            marks = (*each, *marks)
        tag, kind, oneof = (marker(marks, each) for each in (Tag, Kind, Oneof))
        if tag is not None and not 1 <= tag.number < 2**29:
            raise InvalidSchema(f"{tag.number} is not a field number.", field=attribute.name)
        found.append(
            Marks(tag.number if tag else None, kind.name if kind else None, oneof.name if oneof else None)
        )
    return found


def _inner(annotation: Any) -> list[tuple[Any, ...]]:
    """Markers within the annotation, as in ``list[Annotated[int, Kind("sint32")]]`` or ``... | None``."""
    bare, _ = unwrapped(annotation, ())
    found = []
    for argument in getattr(bare, "__args__", ()):
        _, marks = unwrapped(argument, ())
        found += [marks, *_inner(argument)]
    return found
