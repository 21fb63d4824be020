"""Data types as named records: what Avro, Protobuf, Thrift and Python have in common.

Anonymous structures get a name from where they stand, tuples become records of numbered items, alternatives
become unions, and other names for a type are replaced by what they stand for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, count

from dragoman.language.model import Model
from dragoman.language.shape import Field as ShapeField
from dragoman.language.shape import Many, Named, Record, Scalar, Shape, Tuple, Union, shape_of

JSON = "json"
"""The basic type of a part of unknown shape: a text that holds JSON."""


@dataclass(frozen=True, slots=True)
class Type:
    pass


@dataclass(frozen=True, slots=True)
class Basic(Type):
    name: str


@dataclass(frozen=True, slots=True)
class Defined(Type):
    """A record or union by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Listed(Type):
    item: Type


@dataclass(frozen=True, slots=True)
class Field:
    """``original`` is the name in the model, where that is not an identifier."""

    name: str
    original: str
    type: Type
    optional: bool = False
    group: int | None = None
    """Fields with one group number exclude each other."""


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    fields: tuple[Field, ...]
    union: bool = False


def identifier(text: str) -> str:
    """A name that every schema language takes."""
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "value"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def definitions(model: Model, *names: str) -> dict[str, Definition]:
    """What is needed for these data types, each after what it needs where there is no circle."""
    lowering = _Lowering(model)
    for name in names:
        lowering.root(name)
    return lowering.found


def definition_of(model: Model, name: str, shape: Shape) -> dict[str, Definition]:
    """A definition for a shape that has no data type, such as an inline payload."""
    lowering = _Lowering(model)
    lowering.define(name, shape if isinstance(shape, Record) else _wrapped(shape))
    return lowering.found


def _wrapped(shape: Shape) -> Record:
    """What is no record by itself becomes the only field of one."""
    name = "items" if isinstance(shape, Many) else "value"
    return Record((ShapeField(name, shape),))


class _Lowering:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.found: dict[str, Definition] = {}
        self.reserved: set[str] = set(model.types)
        self.started: set[str] = set()
        self.aliases: list[str] = []

    def root(self, name: str) -> None:
        if name in self.started:
            return
        self.started.add(name)
        shape = shape_of(self.model.types[name].structure)
        self.define(name, shape if isinstance(shape, Record) else _wrapped(shape))

    def define(self, name: str, record: Record) -> None:
        groups = {field: number for number, group in enumerate(record.exclusive) for field in group}
        fields: list[Field] = []
        taken: set[str] = set()
        for each in record.fields:
            if isinstance(each.shape, Scalar) and each.shape.basic == "void":
                continue
            cleaned = unique(identifier(each.name), taken)
            type = self.type(each.shape, name, cleaned)
            fields.append(Field(cleaned, each.name, type, each.optional, groups.get(each.name)))
        self.found[name] = Definition(name, tuple(fields))

    def type(self, shape: Shape, owner: str, field: str) -> Type:
        match shape:
            case Scalar(basic, _):
                return Basic(basic or "string")
            case Many(item, _):
                return Listed(self.type(item, owner, field))
            case Named(name):
                return self._named(name, owner, field)
            case Record():
                inner = self._inner(owner, field)
                self.define(inner, shape)
                return Defined(inner)
            case Tuple(items):
                inner = self._inner(owner, field)
                numbered = (ShapeField(f"item{number}", item) for number, item in enumerate(items, 1))
                self.define(inner, Record(tuple(numbered)))
                return Defined(inner)
            case Union(options):
                return self._union(options, owner, field)
        return Basic(JSON)

    def _named(self, name: str, owner: str, field: str) -> Type:
        if name not in self.model.types or name in self.aliases:
            return Basic(JSON)
        shape = shape_of(self.model.types[name].structure)
        if isinstance(shape, Record):
            self.root(name)
            return Defined(name)
        self.aliases.append(name)
        type = self.type(shape, owner, field)
        self.aliases.pop()
        return type

    def _union(self, options: tuple[Shape, ...], owner: str, field: str) -> Type:
        inner = self._inner(owner, field)
        fields: dict[Type, Field] = {}
        taken: set[str] = set()
        for number, option in enumerate(options, 1):
            type = self.type(option, inner, f"option{number}")
            if isinstance(type, Listed) and any(isinstance(each, Listed) for each in fields if each != type):
                type = self._boxed(type, inner, f"option{number}")
            name = unique(_option_name(type, number), taken)
            fields.setdefault(type, Field(name, name, type, optional=True, group=0))
        if len(fields) == 1:
            return next(iter(fields))
        self.found[inner] = Definition(inner, tuple(fields.values()), union=True)
        return Defined(inner)

    def _boxed(self, items: Listed, owner: str, field: str) -> Type:
        """A record around a list: Avro's unions have room for one list only."""
        name = self._inner(owner, field)
        self.found[name] = Definition(name, (Field("items", "items", items),))
        return Defined(name)

    def _inner(self, owner: str, field: str) -> str:
        name = owner + capitalised(field)
        while name in self.reserved:
            name += "_"
        self.reserved.add(name)
        return name


def unique(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken already; from now on it is."""
    numbered = (f"{name}_{number}" for number in count(2))
    found = next(each for each in chain([name], numbered) if each not in taken)
    taken.add(found)
    return found


def _option_name(type: Type, number: int) -> str:
    match type:
        case Basic(name):
            return f"{name}_value"
        case Defined(name):
            return name[0].lower() + name[1:]
    return f"option{number}"
