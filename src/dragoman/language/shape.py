"""Data types without their syntax: what generators and pointers work on.

Trees and lists become records, forests tuples, cardinalities lists and optional fields, alternatives unions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.language import syntax as s


@dataclass(frozen=True, slots=True)
class Shape:
    pass


@dataclass(frozen=True, slots=True)
class Scalar(Shape):
    basic: str | None
    role: str


@dataclass(frozen=True, slots=True)
class Unknown(Shape):
    pass


@dataclass(frozen=True, slots=True)
class Named(Shape):
    """A reference to a data type."""

    name: str


@dataclass(frozen=True, slots=True)
class Many(Shape):
    item: Shape
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class Tuple(Shape):
    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Union(Shape):
    options: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    shape: Shape
    optional: bool = False
    stereotype: str | None = None


@dataclass(frozen=True, slots=True)
class Record(Shape):
    """``exclusive`` are groups of field names of which exactly one is there."""

    fields: tuple[Field, ...]
    exclusive: tuple[tuple[str, ...], ...] = field(default=())


def shape_of(structure: s.Structure) -> Shape:
    """The shape of a whole structure: of a data type, a payload, or headers."""
    if structure.name is not None and not isinstance(structure, s.Forest):
        return Record((_field(structure, structure.name.value),))
    return _repeated(structure, _bare(structure))


def _bare(structure: s.Structure) -> Shape:
    """The shape without name and cardinality."""
    match structure:
        case s.Atomic():
            return Scalar(structure.basic, structure.role)
        case s.Reference():
            return Named(structure.type.text)
        case s.Choice():
            return Union(tuple(_repeated(option, _bare(option)) for option in structure.options))
        case s.Forest():
            return Tuple(tuple(_repeated(item, _bare(item)) for item in structure.items))
        case s.Tree() | s.AtomicList():
            return _record(structure)
    return Unknown()


def _repeated(structure: s.Structure, shape: Shape) -> Shape:
    if not structure.cardinality.repeated:
        return shape
    return Many(shape, 1 if structure.cardinality is s.Cardinality.SOME else 0)


def _record(structure: s.Tree | s.AtomicList) -> Shape:
    items = structure.items
    if len(items) == 1 and items[0].name is None and not _names_in(items[0]):
        return _repeated(items[0], _bare(items[0]))
    fields: list[Field] = []
    exclusive: list[tuple[str, ...]] = []
    for position, item in enumerate(items, 1):
        if isinstance(item, s.Choice) and _names_in(item):
            options = [
                _field(option, _name(option, f"{position}_{n}")) for n, option in enumerate(item.options, 1)
            ]
            fields += [Field(option.name, option.shape, True, option.stereotype) for option in options]
            exclusive.append(tuple(option.name for option in options))
        else:
            fields.append(_field(item, _name(item, str(position))))
    return Record(_distinct(fields), tuple(exclusive))


def _names_in(item: s.Structure) -> bool:
    return isinstance(item, s.Choice) and any(option.name for option in item.options)


def _name(item: s.Structure, position: str) -> str:
    """The name of an element, or one made from its type or its place."""
    if item.name is not None:
        return item.name.value
    if isinstance(item, s.Reference):
        return item.type.text[0].lower() + item.type.text[1:]
    return f"part{position}"


def _field(item: s.Structure, name: str) -> Field:
    stereotype = item.stereotype.text if item.stereotype else None
    return Field(name, _repeated(item, _bare(item)), item.cardinality.optional, stereotype)


def _distinct(fields: list[Field]) -> tuple[Field, ...]:
    """Of fields with one name, the first counts."""
    return tuple({each.name: each for each in reversed(fields)}.values())[::-1]
