"""What only Thrift asks about a field, written in ``Annotated[...]``.

count: Annotated[int, Id(7), Kind("i16")]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dragoman.core.errors import InvalidSchema
from dragoman.schema.binding import marks_within
from dragoman.schema.classes import shape_of
from dragoman.schema.describing import marker


@dataclass(frozen=True, slots=True)
class Id:
    """The field's id. Without it, fields are numbered from 1 in the order of their declaration."""

    id: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The integer type where the usual one is not meant: ``i8`` or ``i16``."""

    name: str


class Marks(NamedTuple):
    id: int | None
    kind: str | None


def marks_of(cls: type) -> list[Marks]:
    """The markers of each field, in the order in which ``describe`` gives the fields."""
    found = []
    for attribute in shape_of(cls).attributes:
        marks = marks_within(attribute.annotation)
        id, kind = marker(marks, Id), marker(marks, Kind)
        if id is not None and not 1 <= id.id < 2**15:
            raise InvalidSchema(f"{id.id} is not a field id.", field=attribute.name, next="Use 1 to 32767.")
        found.append(Marks(id.id if id else None, kind.name if kind else None))
    return found
