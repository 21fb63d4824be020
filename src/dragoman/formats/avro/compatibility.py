"""Avro's schema resolution, asked before any data: can the reader's schema read what the writer's writes?

The rules are those of Avro's own checker, and so are their names. One more is ours: a day, a time of day and
a moment are not read as one another, though all of them are numbers. ``LENIENT`` leaves it out.

Pairs of named types are remembered: a recursive schema ends, and a wide one takes linear time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.core.contract import Incompatibility
from dragoman.core.format import Policy
from dragoman.formats.avro.deep import Deep, done, run
from dragoman.formats.avro.nodes import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Place,
    Primitive,
    Record,
    Union,
    label,
    simple,
)
from dragoman.schema.logical import same_kind

PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """How the writer's data leads to a place: the node above, and what was chosen or entered there."""

    above: Trail | None
    node: Node
    step: str | int


class Reason(NamedTuple):
    """An incompatibility before it is told: enough to make a message that shows it."""

    rule: str
    message: str
    reader: Place
    writer: Place
    trail: Trail | None
    wanted: str | int | None = None
    """The symbol or branch that the reader lacks."""


Reasons = tuple[Reason, ...]


def same_name(reader: Named, writer: Named) -> bool:
    """By the simple name, or because the reader knows the writer's full name as an alias."""
    return simple(reader.name) == simple(writer.name) or writer.name in reader.aliases


def matched_fields(reader: Record, writer: Record) -> dict[str, Field]:
    """The writer's field for each field of the reader that has one: by its name, else by an alias.

    A field goes to the one reader's field that has its name, whatever others call themselves too.
    """
    free = {each.name: each for each in writer.fields}
    found = {each.name: free.pop(each.name) for each in reader.fields if each.name in free}
    for each in reader.fields:
        former = next((alias for alias in each.aliases if alias in free), None)
        if each.name not in found and former is not None:
            found[each.name] = free.pop(former)
    return found


@dataclass(slots=True)
class Checker:
    """Compares nodes of two schemas; remembers what it found."""

    policy: Policy = Policy.STRICT
    _found: dict[tuple[int, int], Reasons] = field(default_factory=dict)
    _log: list[tuple[int, int]] = field(default_factory=list)

    def reasons(self, reader: Node, writer: Node) -> Reasons:
        return run(self._check(reader, writer, None))

    def compatible(self, reader: Node, writer: Node) -> bool:
        return not self.reasons(reader, writer)

    def branch_for(self, reader: Union, writer: Node) -> Node | None:
        """The reader's branch that takes the writer's type: the same type if there is one, else the first."""
        same = [each for each in reader.branches if self._same_type(each, writer)]
        others = [each for each in reader.branches if each not in same]
        return next((each for each in (*same, *others) if self.compatible(each, writer)), None)

    @staticmethod
    def _same_type(reader: Node, writer: Node) -> bool:
        if isinstance(reader, Record | Enum | Fixed) and isinstance(writer, Record | Enum | Fixed):
            return reader.kind == writer.kind and reader.name == writer.name
        return reader.kind == writer.kind

    def _check(self, reader: Node, writer: Node, trail: Trail | None) -> Deep[Reasons]:
        if reader is writer:
            return ()
        if not isinstance(reader, Record) or not isinstance(writer, Record):
            found: Reasons = yield self._compare(reader, writer, trail)
            return found
        pair = (id(reader), id(writer))
        if pair in self._found:
            return self._found[pair]
        # Taken to be compatible while it is looked into. What was found good in the meantime may rest on
        # that, so it is forgotten if the pair turns out bad.
        self._found[pair] = ()
        start = len(self._log)
        self._log.append(pair)
        found = yield self._compare(reader, writer, trail)
        if found:
            for assumed in self._log[start:]:
                if not self._found[assumed]:
                    del self._found[assumed]
            del self._log[start:]
            self._found[pair] = found
        return found

    def _compare(self, reader: Node, writer: Node, trail: Trail | None) -> Deep[Reasons]:
        if isinstance(writer, Union):
            return self._from_union(reader, writer, trail)
        if isinstance(reader, Union):
            return self._to_union(reader, writer, trail)
        match reader, writer:
            case Primitive(), Primitive():
                return done(self._primitives(reader, writer, trail))
            case Array(), Array():
                return self._check(reader.items, writer.items, Trail(trail, writer, ""))
            case Map(), Map():
                return self._check(reader.values, writer.values, Trail(trail, writer, ""))
            case Record(), Record():
                return self._fields(reader, writer, trail)
            case Enum(), Enum():
                return done(_misnamed(reader, writer, trail) or _symbols(reader, writer, trail))
            case Fixed(), Fixed():
                return done(_misnamed(reader, writer, trail) or self._sizes(reader, writer, trail))
            case _:
                return done((_mismatch(reader, writer, trail),))

    def _from_union(self, reader: Node, writer: Union, trail: Trail | None) -> Deep[Reasons]:
        """Every branch that the writer may choose must be readable."""
        found: dict[Reason, None] = {}
        for index, branch in enumerate(writer.branches):
            chosen = Trail(trail, writer, index)
            if isinstance(reader, Union):
                found |= dict.fromkeys((yield self._to_union(reader, branch, chosen)))
            else:
                found |= dict.fromkeys((yield self._check(reader, branch, chosen)))
        return tuple(found)

    def _to_union(self, reader: Union, writer: Node, trail: Trail | None) -> Deep[Reasons]:
        for branch in reader.branches:
            found = yield self._check(branch, writer, trail)
            if not found:
                return ()
        message = f"The reader's union has no branch for the writer's {label(writer)}."
        return (Reason("MISSING_UNION_BRANCH", message, reader.place, writer.place, trail),)

    def _primitives(self, reader: Primitive, writer: Primitive, trail: Trail | None) -> Reasons:
        if reader.kind != writer.kind and reader.kind not in PROMOTIONS.get(writer.kind, ()):
            return (_mismatch(reader, writer, trail),)
        return self._logical(reader, writer, trail)

    def _logical(self, reader: Primitive | Fixed, writer: Primitive | Fixed, trail: Trail | None) -> Reasons:
        if reader.logical == writer.logical:
            return ()
        strict = self.policy is Policy.STRICT and not same_kind(writer.logical, reader.logical)
        if self.policy is not Policy.EXACT and not strict:
            return ()
        message = f"The writer's {_meaning(writer)} is not the reader's {_meaning(reader)}."
        return (Reason("LOGICAL_TYPE_MISMATCH", message, reader.place, writer.place, trail),)

    def _sizes(self, reader: Fixed, writer: Fixed, trail: Trail | None) -> Reasons:
        if reader.size == writer.size:
            return self._logical(reader, writer, trail)
        message = f"The writer's {writer.name} has {writer.size} bytes, the reader's {reader.size}."
        at = (reader.place / "size", writer.place / "size")
        return (Reason("FIXED_SIZE_MISMATCH", message, *at, trail),)

    def _fields(self, reader: Record, writer: Record, trail: Trail | None) -> Deep[Reasons]:
        misnamed = _misnamed(reader, writer, trail)
        if misnamed:
            return misnamed
        # What a type that is used often lacks is one reason, not one for each use.
        found: dict[Reason, None] = {}
        matched = matched_fields(reader, writer)
        for each in reader.fields:
            source = matched.get(each.name)
            if source is not None:
                below = yield self._check(each.type, source.type, Trail(trail, writer, source.name))
                found |= dict.fromkeys(below)
            elif each.default is MISSING:
                message = f"The reader's field {each.name} has no default, and the writer has no such field."
                rule = "READER_FIELD_MISSING_DEFAULT_VALUE"
                found[Reason(rule, message, each.place, writer.place / "fields", trail)] = None
        return tuple(found)


def _misnamed(reader: Named, writer: Named, trail: Trail | None) -> Reasons:
    if same_name(reader, writer):
        return ()
    message = f"The writer's {writer.name} is not the reader's {reader.name}, nor one of its aliases."
    return (Reason("NAME_MISMATCH", message, reader.place / "name", writer.place / "name", trail),)


def _symbols(reader: Enum, writer: Enum, trail: Trail | None) -> Reasons:
    known = set(reader.symbols)
    unknown = [symbol for symbol in writer.symbols if symbol not in known]
    if not unknown or reader.default is not None:
        return ()
    message = f"The reader's {reader.name} lacks {', '.join(unknown)} and has no default."
    at = (reader.place / "symbols", writer.place / "symbols")
    return (Reason("MISSING_ENUM_SYMBOLS", message, *at, trail, unknown[0]),)


def _mismatch(reader: Node, writer: Node, trail: Trail | None) -> Reason:
    message = f"The writer's {label(writer)} cannot be read as the reader's {label(reader)}."
    return Reason("TYPE_MISMATCH", message, reader.place, writer.place, trail)


def _meaning(node: Primitive | Fixed) -> str:
    if node.logical is None:
        return f"plain {node.kind}"
    if node.logical.name == "decimal":
        return f"decimal({node.logical.precision}, {node.logical.scale})"
    return node.logical.name


def incompatibilities(
    reader: Node, writer: Node, policy: Policy, example: Callable[[Node, Reason], str | None]
) -> tuple[Incompatibility, ...]:
    """Each reason once, with a message that shows it."""
    seen: dict[tuple[str, str, str], Reason] = {}
    for reason in Checker(policy).reasons(reader, writer):
        seen.setdefault((reason.rule, str(reason.reader), str(reason.writer)), reason)
    return tuple(
        Incompatibility(rule, reason.message, at_reader, at_writer, example(writer, reason))
        for (rule, at_reader, at_writer), reason in seen.items()
    )
