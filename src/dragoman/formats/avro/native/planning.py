"""What both planners need."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MemberDescriptorType
from typing import Any

from dragoman.formats.avro.native.engine import Limits
from dragoman.schema.markers import Constraint, Length, Max, Min, Pattern

PER_SECOND = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}


class Unplanned(Exception):
    """This part of the schema is left to Python, and the codec with it."""


def limits_of(constraints: Iterable[Constraint]) -> Limits | None:
    rules: list[tuple[str, Any, Any]] = []
    for each in constraints:
        match each:
            case Min():
                rules.append((">" if each.exclusive else ">=", each.value, None))
            case Max():
                rules.append(("<" if each.exclusive else "<=", each.value, None))
            case Length():
                rules.append(("length", each.min, each.max))
            case Pattern():
                rules.append(("like", re.compile(each.regex).search, None))
    return Limits(rules) if rules else None


def place_in(cls: type, attribute: str) -> str | MemberDescriptorType:
    """The slot of an attribute, by which it is set and read without being looked up; else its name."""
    usual = (getattr(cls, name) is getattr(object, name) for name in ("__getattribute__", "__setattr__"))
    for base in cls.__mro__ if all(usual) else ():
        if attribute in base.__dict__:
            found = base.__dict__[attribute]
            return found if type(found) is MemberDescriptorType else attribute
    return attribute
