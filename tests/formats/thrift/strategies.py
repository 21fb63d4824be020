"""Random Thrift documents, changes to them, and values that fit them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from dragoman.formats.thrift.model import (
    INTEGERS,
    Base,
    EnumType,
    ListType,
    MapType,
    Requiredness,
    SetType,
    Struct,
    StructType,
    Type,
)

BASES = ("bool", "i8", "i16", "i32", "i64", "double", "string", "binary")
SIMPLE = (*BASES, "uuid", "Color")


@dataclass(frozen=True)
class Member:
    id: int
    type: str
    requiredness: str = ""

    @property
    def text(self) -> str:
        return f"{self.id}: {self.requiredness} {self.type} f{self.id}"


@dataclass(frozen=True)
class Thrift:
    """A document of a root, a struct, a union and an enum."""

    whole: tuple[Member, ...]
    part: tuple[Member, ...]
    choice: tuple[Member, ...]
    colors: tuple[int, ...]
    protocol: str = "compact"

    @property
    def text(self) -> str:
        choices = "\n".join(replace(member, requiredness="").text for member in self.choice)
        colors = ", ".join(f"{'D' if number < 0 else 'C'}{abs(number)} = {number}" for number in self.colors)
        return (
            f"enum Color {{ {colors} }}\n"
            f"union Choice {{ {choices} }}\n"
            f"struct Part {{ {body(self.part)} }}\n"
            f'struct Whole {{ {body(self.whole)} }} (dragoman.protocol = "{self.protocol}")\n'
        )


def body(members: tuple[Member, ...]) -> str:
    return "\n".join(member.text for member in members)


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    keys = st.sampled_from([each for each in SIMPLE if each != "double"])
    return st.one_of(
        inner.map(lambda item: f"list<{item}>"),
        inner.map(lambda item: f"set<{item}>"),
        st.tuples(keys, inner).map(lambda pair: f"map<{pair[0]}, {pair[1]}>"),
    )


simple_types = st.sampled_from(SIMPLE)
"""Types without structs."""

types = st.recursive(st.sampled_from((*SIMPLE, "Part", "Choice")), containers, max_leaves=3)


@st.composite
def members(draw: st.DrawFn, id: int, of: st.SearchStrategy[str] = types) -> Member:
    return Member(id, draw(of), draw(st.sampled_from(("", "optional", "required"))))


@st.composite
def bodies(draw: st.DrawFn, of: st.SearchStrategy[str] = types, least: int = 0) -> tuple[Member, ...]:
    ids = draw(st.lists(st.integers(1, 40), min_size=least, max_size=5, unique=True))
    return tuple(draw(members(id, of)) for id in ids)


colors = st.lists(st.integers(-3, 5), min_size=1, max_size=4, unique=True).map(tuple)
protocols = st.sampled_from(("compact", "binary"))
documents = st.builds(Thrift, bodies(), bodies(simple_types), bodies(simple_types, 1), colors, protocols)


@st.composite
def changed(draw: st.DrawFn, document: Thrift) -> Thrift:
    """The same document after a few edits."""
    for _ in range(draw(st.integers(0, 3))):
        edit = draw(st.sampled_from(("drop", "add", "type", "colors")))
        if edit == "colors":
            document = replace(document, colors=draw(colors))
            continue
        side = draw(st.sampled_from(("whole", "part", "choice")))
        found = list(getattr(document, side))
        of = types if side == "whole" else simple_types
        if edit == "add":
            free = [id for id in range(1, 50) if all(each.id != id for each in found)]
            found.append(draw(members(draw(st.sampled_from(free)), of)))
        elif len(found) > 1:
            index = draw(st.integers(0, len(found) - 1))
            if edit == "drop":
                del found[index]
            else:
                found[index] = draw(members(found[index].id, of))
        document = replace(document, **{side: tuple(found)})
    return document


pairs = documents.flatmap(lambda document: st.tuples(st.just(document), changed(document)))

_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


def value_of(type: Type, depth: int = 0) -> st.SearchStrategy[Any]:
    """Plain values of a type, as decoding gives them."""
    match type:
        case Base() if type in INTEGERS:
            half = 2 ** (INTEGERS[type] - 1)
            return st.integers(-half, half - 1)
        case Base():
            return {
                Base.BOOL: st.booleans(),
                Base.DOUBLE: st.floats(allow_nan=False),
                Base.STRING: _TEXT,
                Base.BINARY: st.binary(max_size=5),
                Base.UUID: st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw)),
            }[type]
        case EnumType():
            return st.sampled_from([each.name for each in type.enum.members])
        case StructType():
            return struct_values(type.struct, depth + 1)
        case ListType():
            return st.lists(value_of(type.item, depth), max_size=0 if depth > 2 else 3)
        case SetType():
            if isinstance(type.item, Base | EnumType):
                return st.sets(value_of(type.item, depth), max_size=3)
            return st.lists(value_of(type.item, depth), max_size=2)
        case MapType():
            return st.dictionaries(value_of(type.key, depth), value_of(type.value, depth), max_size=2)


@st.composite
def struct_values(draw: st.DrawFn, struct: Struct, depth: int = 0) -> dict[str, Any]:
    if struct.kind == "union":
        field = draw(st.sampled_from(struct.fields))
        return {field.name: draw(value_of(field.type, depth))}
    made: dict[str, Any] = {}
    for field in struct.fields:
        given = field.requiredness is Requiredness.REQUIRED or draw(st.booleans())
        made[field.name] = draw(value_of(field.type, depth)) if given else None
    return made
