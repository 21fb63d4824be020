"""What a schema says, in the shape that schemas are compared in.

The shape follows the one that registries of the field use, since verdicts depend on it: a list of types
is an ``anyOf``, keywords of several kinds side by side are an ``allOf``, keywords without a type imply
one. Children are places, so that recursive schemas are finite; ``Model.at`` turns a place into its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dragoman.formats.json.link import Place


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """Compared by identity: a model has one node for a place."""

    place: Place


@dataclass(frozen=True, eq=False, kw_only=True)
class Anything(Node):
    """``true`` and ``{}``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Nothing(Node):
    """``false``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Null(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Boolean(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Values(Node):
    """``enum`` and ``const``."""

    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Typed(Node):
    """``demanded`` is false where the type is only implied: values of other types are then valid too."""

    demanded: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class String(Typed):
    min_length: Fraction | None = None
    max_length: Fraction | None = None
    pattern: str | None = None
    format: str | None = None
    encoding: tuple[str | None, str | None] = (None, None)
    asserts: tuple[bool, bool] = (True, True)
    """Whether the draft validates the format, and the encoding."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Number(Typed):
    integer: bool
    whole: bool
    """Whether ``1.0`` is an integer, as it is since draft 6."""
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    exclusive_minimum: Fraction | None = None
    exclusive_maximum: Fraction | None = None
    multiple_of: Fraction | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Contains:
    place: Place
    min: int = 1
    max: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Rest:
    """What holds for members that are not listed: ``additional…`` or, failing that, ``unevaluated…``."""

    place: Place
    keyword: str
    certain: bool = True
    """False where other keywords may take members out of its reach."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Array(Typed):
    prefix: tuple[Place, ...] = ()
    rest: Rest | None = None
    tuple: bool = False
    """Written with a list of items, rather than with one schema for all."""
    min_items: Fraction | None = None
    max_items: Fraction | None = None
    unique: bool = False
    contains: Contains | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Object(Typed):
    properties: Mapping[str, Place]
    patterns: Mapping[str, Place]
    rest: Rest | None = None
    required: frozenset[str] = frozenset()
    min_properties: Fraction | None = None
    max_properties: Fraction | None = None
    needs: Mapping[str, frozenset[str]]
    """Dependencies of a property on others."""
    implies: tuple[tuple[str, Place], ...] = ()
    """Dependencies of a property on a schema."""
    names: Place | None = None
    entangled: bool = False
    """Beside other keywords that look at the same object, so that adding a property may upset them."""


class Criterion(StrEnum):
    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(frozen=True, eq=False, kw_only=True)
class Combined(Node):
    """At least two branches, each a node of its own or a place."""

    criterion: Criterion
    branches: tuple[Place | Node, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Not(Node):
    inner: Place


@dataclass(frozen=True, eq=False, kw_only=True)
class Conditional(Node):
    """``if``, ``then`` and ``else``; a missing branch is ``None``."""

    condition: Place
    then: Place | None
    otherwise: Place | None
