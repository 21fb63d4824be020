"""What only Protobuf asks about a field, written in ``Annotated[...]``.

count: Annotated[int, Tag(7), Kind("sint32")]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dragoman.core.errors import InvalidSchema
from dragoman.schema.binding import marks_within
from dragoman.schema.classes import shape_of
from dragoman.schema.describing import marker


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
        marks = marks_within(attribute.annotation)
        tag, kind, oneof = (marker(marks, each) for each in (Tag, Kind, Oneof))
        if tag is not None and not 1 <= tag.number < 2**29:
            raise InvalidSchema(f"{tag.number} is not a field number.", field=attribute.name)
        found.append(
            Marks(tag.number if tag else None, kind.name if kind else None, oneof.name if oneof else None)
        )
    return found
